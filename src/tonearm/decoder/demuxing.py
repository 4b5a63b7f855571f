"""From an opened container to audio frames: packet by packet, stepping over what is damaged."""

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import av
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet

from tonearm.decoder import formats, play_errors
from tonearm.decoder.guarded_reader import GuardedReader

# About six seconds of MP3: what is longer is no scratch any more.
MAX_BAD_PACKETS_IN_A_ROW: Final = 250
# A demuxer that fails usually goes on behind the damage with the next call; one that cannot fails for ever.
MAX_DEMUX_ERRORS_IN_A_ROW: Final = 32


@dataclass(slots=True)
class PacketCounts:
    """How packets fared since the container was opened."""

    good: int = 0
    bad: int = 0


class PacketDecoder:
    """Decodes the packets of one audio stream in order. Other streams are not demuxed."""

    def __init__(self, container: InputContainer, stream: AudioStream, guard: GuardedReader, name: str) -> None:
        self.counts = PacketCounts()
        self.packet: Packet[AudioStream] | None = None  # the one decoded last
        self._container = container
        self._stream = stream
        self._guard = guard
        self._name = name
        self._bad_in_a_row = 0
        self._packets: Iterator[Packet[AudioStream]] = container.demux(stream)

    def next_frames(self) -> list[AudioFrame] | None:
        """The frames of the next packet (perhaps none), or None at the end.

        Raises PlayError: the reader's own, `corrupt` after a long run of bad packets, `limit_exceeded`.
        """
        try:
            self.packet = packet = next(self._packets, None)
        except (av.FFmpegError, MemoryError) as error:
            self.packet = packet = self._packet_behind(error)
        self._guard.raise_failure()
        if packet is None:
            self._guard.raise_cause()
            return None
        self._guard.packet_came()
        try:
            frames: list[AudioFrame] = packet.decode()
        except (av.FFmpegError, MemoryError) as error:
            self._guard.raise_failure()
            self._raise_if_out_of_memory(error)
            self._count_bad()
            return []
        if frames:
            self.counts.good += 1
            self._bad_in_a_row = 0
        return frames

    def restart(self) -> None:
        """After a seek of the container: go on from where it stands now."""
        self._packets = self._container.demux(self._stream)
        self._bad_in_a_row = 0

    def _packet_behind(self, error: Exception) -> "Packet[AudioStream] | None":
        """The first packet that the demuxer finds after it failed with `error`; None at the end."""
        for _ in range(MAX_DEMUX_ERRORS_IN_A_ROW):
            self._guard.raise_cause()
            self._raise_if_out_of_memory(error)
            self._packets = self._container.demux(self._stream)
            try:
                return next(self._packets, None)
            except (av.FFmpegError, MemoryError) as another:
                error = another
        raise play_errors.corrupt(self._name, "its data cannot be followed any further")

    def _count_bad(self) -> None:
        self.counts.bad += 1
        self._bad_in_a_row += 1
        if self._bad_in_a_row > MAX_BAD_PACKETS_IN_A_ROW:
            raise play_errors.corrupt(self._name, f"{self._bad_in_a_row} pieces in a row could not be decoded")

    def _raise_if_out_of_memory(self, error: Exception) -> None:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            raise play_errors.limit_exceeded(self._name, "it asks for more memory than any sound needs") from error


def check_limits(name: str, sample_rate_hz: int, channels: int) -> None:
    """Raise PlayError for a sample rate or a number of channels that no ordinary file has."""
    if not formats.MIN_SAMPLE_RATE_HZ <= sample_rate_hz <= formats.MAX_SAMPLE_RATE_HZ:
        raise play_errors.limit_exceeded(
            name,
            f"a sample rate of {sample_rate_hz} Hz is outside "
            f"{formats.MIN_SAMPLE_RATE_HZ} to {formats.MAX_SAMPLE_RATE_HZ} Hz",
        )
    if not 1 <= channels <= formats.MAX_CHANNELS:
        raise play_errors.limit_exceeded(name, f"{channels} channels are more than {formats.MAX_CHANNELS}")

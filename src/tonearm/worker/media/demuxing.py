"""Decodes the packets of an opened container one by one, skips damaged packets, and gives frames their positions.

A position counts the source's own samples, from its first audible one.
"""

import errno
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from math import gcd
from typing import Final

import av
from av.audio.codeccontext import AudioCodecContext
from av.audio.fifo import AudioFifo
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet

from tonearm.core.frame import SAMPLE_RATE_HZ
from tonearm.core.mpeg_frames import frame_at
from tonearm.worker.media import formats
from tonearm.worker.reading import errors
from tonearm.worker.reading.guarded_reader import GuardedReader

# About six seconds of MP3: more than a scratch.
MAX_BAD_PACKETS_IN_A_ROW: Final = 250
# After an error a demuxer usually continues after the damage at the next call. A demuxer that cannot fails for ever.
MAX_DEMUX_ERRORS_IN_A_ROW: Final = 32
_LOWEST_BIT_RATE: Final = 32_000  # of MPEG 1
_MOST_UNEVEN_BYTES: Final = 2  # of some frames of a constant bit rate beside those of their mean length
_TRIMMING: Final = struct.Struct("<II")  # AV_PKT_DATA_SKIP_SAMPLES


class PacketDecoder:
    """Decodes the packets of one audio stream in order. Other streams are not demuxed."""

    def __init__(
        self, container: InputContainer, stream: AudioStream, guard: GuardedReader, codec: AudioCodecContext | None
    ) -> None:
        """`codec` decodes instead of the stream's own decoder, which exists as long as the container and cannot be
        freed."""
        self.good = self.bad = 0  # decoded and undecodable packets since the container was opened
        self.packet: Packet[AudioStream] | None = None  # the last decoded packet
        self._container = container
        self._stream = stream
        self._guard = guard
        self._bad_in_a_row = 0
        self.codec = codec
        self._is_ogg_vorbis = stream.codec_context.name == "vorbis" and container.format.name == "ogg"
        self._packets: Iterator[Packet[AudioStream]] = container.demux(stream)

    def next_frames(self) -> list[AudioFrame] | None:
        """The frames of the next packet (perhaps none), or None at the end.

        Raises PlayError: the reader's error, `corrupt` after many bad packets in a row, or `limit_exceeded`.
        """
        self.packet = packet = self.next_packet()
        if packet is None:
            return None
        try:
            frames: list[AudioFrame] = packet.decode() if self.codec is None else self._decoded(self.codec, packet)
        except (av.FFmpegError, MemoryError, ValueError) as error:  # PyAV 19 raises this for an unknown codec
            self._guard.raise_failure()
            raise_if_out_of_memory(self._guard.source_name, error)
            self._count_bad()
            return []
        if frames:
            self.good += 1
            self._bad_in_a_row = 0
            if self._is_ogg_vorbis and packet.pts is not None and packet.duration:
                # libav assumes a short block before each block (vorbis_packet in libavformat/oggparsevorbis.c). So the
                # first short block after a long one begins too late. Its end is right.
                frames[0].pts = packet.pts + packet.duration - frames[0].samples
            if len(frames) > 1:
                self._give_timestamps(frames)
        return frames

    def _give_timestamps(self, frames: list[AudioFrame]) -> None:
        """Gives the frames of one packet, of which only the first may have a timestamp, those that follow from it."""
        for before, frame in pairwise(frames):
            if frame.pts is None and before.pts is not None and self._stream.time_base:
                tick_s = Fraction(self._stream.time_base.numerator, self._stream.time_base.denominator)
                frame.pts = before.pts + round(before.samples / (before.sample_rate * tick_s))

    def restart(self) -> None:
        if self.codec is not None:
            self.codec.flush_buffers()
        self._packets = self._container.demux(self._stream)
        self._bad_in_a_row = 0

    @staticmethod
    def _decoded(codec: AudioCodecContext, packet: "Packet[AudioStream]") -> list[AudioFrame]:
        frames: list[AudioFrame] = codec.decode(packet if packet.size else None)
        if frames and packet.pts is not None and packet.has_sidedata("skip_samples"):
            # The samples are skipped already, but only a stream's own decoder adjusts the timestamp.
            skipped_s = Fraction(trimming(packet)[0], codec.sample_rate)
            frames[0].pts = packet.pts + int(skipped_s / packet.time_base + Fraction(1, 2))
        return frames

    def skip_before(self, timestamp: int) -> bool:
        """Skips the next packets that begin before `timestamp`, without decoding them. False when there were none.
        Raises PlayError."""
        skipped = False
        while (packet := self.next_packet()) is not None:
            if packet.pts is None or packet.pts >= timestamp:
                self._packets = chain((packet,), self._packets)
                break
            skipped = True
        return skipped

    def next_packet(self) -> "Packet[AudioStream] | None":
        """The next packet, not decoded; None at the end. Raises PlayError."""
        try:
            packet = next(self._packets, None)
        except (av.FFmpegError, MemoryError) as error:
            packet = self._packet_after(error)
        self._guard.raise_failure()
        if packet is None:
            self._guard.raise_cause()
            return None
        self._guard.packet_came()
        return packet

    def _packet_after(self, error: Exception) -> "Packet[AudioStream] | None":
        """The next packet that the demuxer finds after it failed with `error`; None at the end."""
        for _ in range(MAX_DEMUX_ERRORS_IN_A_ROW):
            self._guard.raise_cause()
            raise_if_out_of_memory(self._guard.source_name, error)
            self._packets = self._container.demux(self._stream)
            try:
                return next(self._packets, None)
            except (av.FFmpegError, MemoryError) as another:
                error = another
        raise errors.corrupt(self._guard.source_name, "its data cannot be followed any further")

    def _count_bad(self) -> None:
        self.bad += 1
        self._bad_in_a_row += 1
        if self._bad_in_a_row > MAX_BAD_PACKETS_IN_A_ROW:
            raise errors.corrupt(self._guard.source_name, f"{self._bad_in_a_row} pieces in a row could not be decoded")


def raise_if_out_of_memory(source_name: str, error: Exception) -> None:
    """Raises PlayError when libav's `error` is a lack of memory."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        raise errors.limit_exceeded(source_name, "it asks for more memory than any sound needs") from error


def trimming(packet: "Packet[AudioStream]") -> tuple[int, int]:
    """The number of inaudible samples at the start and at the end of a packet."""
    for side_data in packet.iter_sidedata():
        if side_data.data_type == "skip_samples":
            values: tuple[int, int] = _TRIMMING.unpack_from(bytes(side_data))
            return values
    return 0, 0


def check_limits(name: str, sample_rate_hz: int, channels: int) -> None:
    """Raises PlayError for a sample rate or a number of channels that no ordinary file has."""
    if not formats.MIN_SAMPLE_RATE_HZ <= sample_rate_hz <= formats.MAX_SAMPLE_RATE_HZ:
        raise errors.limit_exceeded(
            name,
            f"a sample rate of {sample_rate_hz} Hz is outside "
            f"{formats.MIN_SAMPLE_RATE_HZ} to {formats.MAX_SAMPLE_RATE_HZ} Hz",
        )
    if not 1 <= channels <= formats.MAX_CHANNELS:
        raise errors.limit_exceeded(name, f"{channels} channels are more than {formats.MAX_CHANNELS}")


@dataclass(frozen=True, slots=True)
class SourcePositions:
    """Converts timestamps of a stream to positions.

    `grid` is set when the container's clock is coarser than a sample (milliseconds in Matroska) and the lengths of all
    frames are multiples of one unit: (samples of the first frame, unit). Positions then snap to the grid.
    """

    sample_rate_hz: int
    time_base: Fraction
    first_timestamp: int
    grid: tuple[int, int] | None

    @classmethod
    def of_stream(cls, stream: AudioStream, first_frames: list[AudioFrame]) -> "SourcePositions | None":
        """None when the container has no timestamps."""
        first = first_frames[0]
        if first.pts is None or not stream.time_base:
            return None
        time_base = Fraction(stream.time_base.numerator, stream.time_base.denominator)
        lengths = {frame.samples for frame in first_frames[1:]}
        is_coarse = time_base * first.sample_rate > 1
        unit = _vorbis_unit(stream) or (lengths.pop() if len(lengths) == 1 else None)
        grid = (first.samples, unit) if is_coarse and unit is not None else None
        return cls(first.sample_rate, time_base, first.pts, grid)

    def of_frame(self, frame: AudioFrame) -> int | None:
        """The position of the frame's first sample; None when it has no timestamp."""
        if frame.pts is None:
            return None
        position = round((frame.pts - self.first_timestamp) * self.time_base * self.sample_rate_hz)
        if self.grid is None:
            return position
        first_samples, frame_samples = self.grid
        if frame.pts == self.first_timestamp and frame.samples == first_samples:
            return 0
        return first_samples + round((position - first_samples) / frame_samples) * frame_samples

    def timestamp_at(self, position: int) -> int:
        # libav takes timestamps of 64 bits.
        position_s = min(position / self.sample_rate_hz, formats.MAX_LENGTH_S)
        return self.first_timestamp + int(position_s / self.time_base)


@dataclass(frozen=True, slots=True)
class ConstantFrames:
    """The frames of an MP3 of constant bit rate: the place of a frame in the file gives its position.

    `first_byte` and `first_timestamp` are those of the first frame, `mean_bytes` is the mean length of a frame.
    `end_byte` is where the last one ends.
    """

    first_byte: int
    first_timestamp: int
    mean_bytes: Fraction
    samples: int
    end_byte: int

    @classmethod
    def of(
        cls, first_packets: "list[Packet[AudioStream]]", sample_rate_hz: int, samples: int, size_bytes: int
    ) -> "ConstantFrames | None":
        """None for a variable bit rate. `samples` and `size_bytes` are those that the file's header counts, or 0."""
        first = first_packets[0]
        frame = frame_at(bytes(first), 0)
        if frame is None or first.pos is None or first.pts is None:
            return None
        bit_rate = int(round(8 * frame.length_bytes / frame.length_s, -3))  # all bit rates of MPEG are whole kilobits
        frame_samples = round(frame.length_s * sample_rate_hz)
        mean_bytes = Fraction(bit_rate * frame_samples, 8 * sample_rate_hz)
        begun_bytes = sum(packet.size for packet in first_packets)
        is_padded_evenly = abs(begun_bytes - mean_bytes * len(first_packets)) < _MOST_UNEVEN_BYTES
        frames_bytes = round(mean_bytes * (samples // frame_samples))
        # An encoder may count its header as a frame, or not. Without a count, silence may come at the lowest bit rate.
        is_constant = abs(size_bytes - frames_bytes) <= 2 * mean_bytes if samples else bit_rate > _LOWEST_BIT_RATE
        if not (is_padded_evenly and is_constant):
            return None
        return cls(first.pos, first.pts, mean_bytes, frame_samples, first.pos + frames_bytes)

    def error_of(self, packet: "Packet[AudioStream]", positions: SourcePositions) -> int:
        """How far the packet's true position is behind that of its timestamp."""
        if packet.pos is None or packet.pts is None:
            return 0
        passed_s = (packet.pts - self.first_timestamp) * positions.time_base
        frames = round((packet.pos - self.first_byte) / self.mean_bytes)
        return frames * self.samples - round(passed_s * positions.sample_rate_hz)


def _vorbis_unit(stream: AudioStream) -> int | None:
    """The unit of all frame lengths of a Vorbis stream: a quarter of its short blocks (Vorbis I specification, 4.2.2
    and 4.3.8). None for other codecs."""
    header = stream.codec_context.extradata or b""
    at = header.find(b"\x01vorbis") if stream.codec_context.name == "vorbis" else -1
    return (1 << (header[at + 28] & 15)) // 4 if 0 <= at < len(header) - 28 else None


def source_start_for(sample: int, sample_rate_hz: int, settle_samples: int) -> tuple[int, int]:
    """The start in the source that gives the output from `sample` (at 48 kHz) on.

    Returns the source position to begin at, and the number of output samples to drop from there. The resampler begins
    where a source sample and an output sample coincide, and `settle_samples` of output earlier, to fill its filter.
    Then its output is exactly that of a resampler that ran from the start of the source.
    """
    if sample_rate_hz == SAMPLE_RATE_HZ:
        return sample, 0
    common = gcd(sample_rate_hz, SAMPLE_RATE_HZ)
    periods = max(sample - settle_samples, 0) * common // SAMPLE_RATE_HZ
    return periods * sample_rate_hz // common, sample - periods * SAMPLE_RATE_HZ // common


def cut(frame: AudioFrame, start: int, stop: int) -> AudioFrame:
    """The samples from `start` to `stop` of a frame, as a frame of its own.

    The samples go through libav's own buffer, because PyAV takes the memory after a frame's eighth plane for a ninth
    plane. So reading a sound of eight channels through `planes` or `to_ndarray` crashes the process.
    """
    frame.pts = None
    samples = AudioFifo()
    samples.write(frame)
    if start:
        samples.read(start)
    part = samples.read(stop - start)
    assert part is not None
    part.pts = None
    return part

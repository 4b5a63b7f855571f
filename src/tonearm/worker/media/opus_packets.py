"""Reads the packets of an Opus source without decoding them, and gives each packet its position in the source.

Positions are samples at 48 kHz from the first audible sample. A packet's sound may begin before it (pre-skip) and end
after the last audible sample (end trimming); libav reports both in side data of the packet.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from av.audio.codeccontext import AudioCodecContext
from av.audio.stream import AudioStream
from av.packet import Packet

from tonearm.core.failure import PlayError
from tonearm.core.frame import FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.worker.media.demuxing import PacketDecoder, SourcePositions, trimming
from tonearm.worker.media.facts import StreamTitles
from tonearm.worker.media.opening import OpenedAudio
from tonearm.worker.media.opus_format import OpusHead, can_pass_through, packet_samples

# A decoder that begins in the middle gains 6 dB of accuracy with each packet, so more than 16 bits after these 20.
PREROLL_SAMPLES: Final = 20 * FRAME_SAMPLES


class SourcePacket(NamedTuple):
    """A packet. Its sound begins at `start`, which may be before 0, and lasts `samples`. It is audible from
    `audible_from` up to `audible_to`."""

    start: int
    samples: int
    audible_from: int
    audible_to: int
    data: bytes

    @property
    def is_whole(self) -> bool:
        return self.audible_to - self.audible_from == self.samples

    def earlier(self, samples: int) -> "SourcePacket":
        start, _, audible_from, audible_to, _ = self
        return self._replace(
            start=start - samples, audible_from=audible_from - samples, audible_to=audible_to - samples
        )

    def cut_at(self, sample: int) -> "SourcePacket":
        return self if self.audible_to <= sample else self._replace(audible_to=max(self.audible_from, sample))


class OpusPackets:
    """Reads the packets of an opened source in order. For the thread that decodes.

    `seek_to(timestamp)` moves the container; False when it cannot.
    """

    @classmethod
    def of(
        cls,
        opened: OpenedAudio,
        positions: SourcePositions | None,
        audible_samples: int | None,
        titles: StreamTitles | None = None,
    ) -> "OpusPackets | None":
        """None for a source whose packets cannot be passed through, so that storing them has no use. `titles` collects
        the titles of a live source."""
        head = OpusHead.of(opened.stream.codec_context)
        if head is None or not head.is_plain or positions is None or positions.sample_rate_hz != SAMPLE_RATE_HZ:
            return None
        first = opened.first_packets
        if not first or not all(can_pass_through(bytes(packet)) for packet in first) or first[0].pts is None:
            return None
        return cls(opened.decoder, head.channels, first, positions, audible_samples, titles)

    def __init__(
        self,
        decoder: PacketDecoder,
        channels: int,
        first: "list[Packet[AudioStream]]",
        positions: SourcePositions,
        audible_samples: int | None,
        titles: StreamTitles | None,
    ) -> None:
        self.channels = channels
        self._titles = titles
        self._decoder = decoder
        self._pending = deque(first)
        self._positions = positions
        self._end = audible_samples
        self._at = self._begun_at = 0  # the next audible sample, and the first one
        self._next_start: int | None = None  # the start of the next packet's sound, unless its own data gives it
        self._interruption: PlayError | None = None
        assert first[0].pts is not None
        # The timestamp and position of the first packet, from which those of the others follow.
        self._first_timestamp, self._first_start = first[0].pts, -trimming(first[0])[0]

    def take_codec(self) -> AudioCodecContext | None:
        """The decoder of the first packets, for use with further packets. Nothing is decoded here afterwards."""
        codec, self._decoder.codec = self._decoder.codec, None
        return codec

    def begin_at(self, sample: int) -> None:
        """Gives the next packets positions from `sample` on: they continue an earlier part of the source."""
        self._at, self._begun_at, self._next_start = sample, sample, None
        if self._end is not None:
            self._end += sample

    def take(self, at_least_samples: int) -> list[SourcePacket]:
        """The next packets, for this many samples or a few more; none only at the end.

        Raises PlayError when the source was interrupted, once all packets before the interruption were returned.
        """
        if self._interruption is not None:
            raise self._interruption
        packets: list[SourcePacket] = []
        wanted_to = self._at + max(at_least_samples, 1)
        try:
            while self._at < wanted_to:
                packet = self._next()
                if packet is None:
                    break
                data = bytes(packet)
                if self._titles is not None:
                    self._titles.packet_begins(packet, self._at - self._begun_at)
                start, end = self._at, self._at + FRAME_SAMPLES
                if (  # nearly always
                    start == self._next_start
                    and can_pass_through(data)
                    and (self._end is None or end <= self._end)
                    and not any(packet.iter_sidedata())
                ):
                    self._at = self._next_start = end
                    packets.append(SourcePacket(start, FRAME_SAMPLES, start, end, data))
                elif (placed := self._placed(packet, data)) is not None:
                    packets.append(placed)
        except PlayError as error:
            self._interruption = error
            if not packets:
                raise
        return packets

    def seek(self, sample: int, seek_to: Callable[[int], bool], timestamps: list[int]) -> list[SourcePacket]:
        """Seeks to before a sample. Returns the packets that a decoder needs before the sample, and those up to it;
        `take` returns the packets after these. Tries the timestamps one after the other; raises LookupError when none
        leads to the sample."""
        self._pending.clear()
        self._interruption = None
        is_behind_end = False
        behind: int | None = None
        for timestamp in timestamps:
            if not seek_to(timestamp):
                continue
            needed_from = max(sample - PREROLL_SAMPLES, self._first_start)
            has_passed = self._decoder.skip_before(self._positions.timestamp_at(needed_from - FRAME_SAMPLES))
            first = self._decoder.next_packet()
            is_behind_end = first is None or not first.size
            if is_behind_end and has_passed:
                return []
            if first is None or is_behind_end or first.pts is None:
                continue
            start = self._start_of(first)
            # A second timestamp leads from before the sample to after it, too: the sample is in a hole.
            is_hole = has_passed and behind is not None and start <= behind
            if start > max(needed_from, self._first_start) and not is_hole and timestamp != timestamps[-1]:
                behind = start
                continue
            # Holes are skipped, so the sound after a hole comes in its place.
            start = min(start, max(sample, self._first_start))
            self._next_start, self._at = start, max(start, 0)
            self._pending.append(first)
            return self.take(sample - self._at + 1) if sample >= self._at else []
        if is_behind_end:
            return []
        raise LookupError(sample)

    def _next(self) -> "Packet[AudioStream] | None":
        if self._pending:
            return self._pending.popleft()
        while (packet := self._decoder.next_packet()) is not None:
            if packet.size:
                return packet
        return None

    def _placed(self, packet: "Packet[AudioStream]", data: bytes) -> SourcePacket | None:
        samples = packet_samples(data)
        if not samples:
            return None
        at, start = self._at, self._next_start
        from_start, from_end = trimming(packet)
        if start is None or (from_start and start == at):
            start = at - from_start
        audible_to = start + samples - from_end
        if self._end is not None:
            audible_to = min(audible_to, self._end)
        self._next_start = None if from_end else start + samples  # the next packet starts over
        self._at = max(audible_to, at)
        return SourcePacket(start, samples, at, self._at, data)

    def _start_of(self, packet: "Packet[AudioStream]") -> int:
        """The start of a packet's sound after a seek, by the packet's timestamp."""
        assert packet.pts is not None
        ticks = packet.pts - self._first_timestamp
        samples = round(ticks * self._positions.time_base * SAMPLE_RATE_HZ)
        if self._positions.time_base * SAMPLE_RATE_HZ > 1:  # rounded to milliseconds
            samples = round(samples / FRAME_SAMPLES) * FRAME_SAMPLES
        return self._first_start + samples

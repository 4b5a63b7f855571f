"""The packets of a source that is Opus, each with its place in the source, read without decoding them.

Places are samples at 48 kHz from the first one that is heard. A packet's sound may begin before that (pre-skip) and end
behind the last one (end trimming); containers say so in side data of the packet, as libav gives it.
"""

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

from av.audio.codeccontext import AudioCodecContext
from av.audio.stream import AudioStream
from av.packet import Packet

from tonearm.core.failure import PlayError
from tonearm.core.file_formats import MOST_HEAD_BYTES, OGG_CONTINUED, OGG_PATTERN, WHOLE_SEGMENT, PageHead, page_head
from tonearm.core.frame import FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.worker.media.demuxing import PacketDecoder, SourcePositions, trimming
from tonearm.worker.media.facts import StreamTitles
from tonearm.worker.media.opening import OpenedAudio
from tonearm.worker.media.opus_format import OpusHead, can_pass_through, packet_samples
from tonearm.worker.reading.reader import MediaReader

_READ_BYTES: Final = 16 * 1024
_MOST_BEGUN_BYTES: Final = 64 * 1024  # of a packet that goes on on the next page


class OggPages:
    """Reads on in a plain Ogg Opus file from a packet that libav has read, page by page and without libav: a third of
    the work for each packet. `reader` is for it alone.

    Only ordinary pages are read so: whole pages of one logical stream in order (RFC 3533, section 6), with packets of
    20 ms that may be passed through, and positions without gaps. libav reads all other pages, and the last one: it
    handles trimming, chained streams and damage.
    """

    @classmethod
    def behind(cls, reader: MediaReader, position: int | None, packet: bytes) -> "OggPages | None":
        """The packets behind `packet`, which is on the page at `position`. None where that page is not ordinary."""
        if position is None or position < 0:
            return None
        pages = cls(reader, position)
        packets = pages.next_packets()
        if packets is None or packets.count(packet) != 1:
            return None
        pages._rest = packets[packets.index(packet) + 1 :]
        return pages

    def __init__(self, reader: MediaReader, position: int) -> None:
        self._reader = reader
        self._raw = bytearray()
        self._at = 0  # in `_raw`, the page that comes next
        self._rest: list[bytes] = []
        self._begun = b""
        self._before: PageHead | None = None
        reader.seek(position)

    def next_packets(self) -> list[bytes] | None:
        """The packets of the next page, one or more. None where libav has to go on."""
        if self._rest:
            rest, self._rest = self._rest, []
            return rest
        try:
            return self._packets_of_page()
        except PlayError:
            return None  # libav finds the same

    def _packets_of_page(self) -> list[bytes] | None:
        self._has(MOST_HEAD_BYTES)
        head, before = page_head(self._raw, self._at), self._before
        if head is None:
            return None
        is_next = before is None or (before.serial, before.sequence + 1) == (head.serial, head.sequence)
        if head.flags & ~OGG_CONTINUED or head.granule < 0 or not is_next:
            return None
        is_continued = bool(head.flags & OGG_CONTINUED)
        if before is not None and is_continued != bool(self._begun):
            return None
        places, place = [0], 0
        for size in head.lacing:
            place += size
            if size < WHOLE_SEGMENT:
                places.append(place)
        # Where another page follows, this one's sizes are right.
        if not self._has(head.page_bytes + len(OGG_PATTERN)):
            return None
        body = self._at + head.bytes_before_content
        if not self._raw.startswith(OGG_PATTERN, body + place):
            return None
        sound = bytes(self._raw[body : body + place])
        packets = [sound[start:end] for start, end in pairwise(places)]
        if packets and is_continued:
            packets[0] = self._begun + packets[0]
        if before is not None and head.granule - before.granule != len(packets) * FRAME_SAMPLES:
            return None
        if before is None and is_continued:
            del packets[:1]  # its beginning was not read
        self._begun = sound[places[-1] :]
        self._before = head
        self._at = body + place
        is_ordinary = bool(packets) and len(self._begun) <= _MOST_BEGUN_BYTES and all(map(can_pass_through, packets))
        return packets if is_ordinary else None

    def _has(self, count: int) -> bool:
        """Whether so many bytes are there from the next page on."""
        while len(self._raw) - self._at < count:
            del self._raw[: self._at]
            self._at = 0
            data = self._reader.read(_READ_BYTES)
            if not data:
                return False
            self._raw += data
        return True


# A decoder that begins in the middle is right to 6 dB more with each packet, so to more than 16 bits after these 20.
PREROLL_SAMPLES: Final = 20 * FRAME_SAMPLES
_TRIES_PAGES: Final = 3  # packets whose pages are searched, after a file was opened or sought


class SourcePacket(NamedTuple):
    """A packet. Its sound begins at `start`, which may be before 0, and lasts `samples`; it is heard from
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
        """None for a source whose packets cannot be passed through, so that nothing is gained by keeping them. `titles`
        collects those of a live source."""
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
        self._at = self._begun_at = 0  # the first sample that was not heard yet, and the very first one
        self._next_start: int | None = None  # where the next packet's sound begins, unless it says so itself
        self._left_out = 0  # samples of holes: what comes now has timestamps that are so much later than its places
        self._interruption: PlayError | None = None
        self._page_reader: MediaReader | None = None
        self._seek_by_libav: Callable[[int], list[SourcePacket]] = lambda _sample: []
        self._pages: OggPages | None = None
        self._tries_pages = _TRIES_PAGES
        self._tried = b""  # the packet that was searched last: packets of silence are all the same, and cannot be found
        assert first[0].pts is not None
        # The timestamp and place of the first packet, from which those of others follow.
        self._first_timestamp, self._first_start = first[0].pts, -trimming(first[0])[0]

    def take_codec(self) -> AudioCodecContext | None:
        """The decoder of the first packets, to be used for others. Nothing is decoded here any more."""
        codec, self._decoder.codec = self._decoder.codec, None
        return codec

    def read_pages(self, reader: MediaReader, seek: Callable[[int], list[SourcePacket]]) -> None:
        """From now on an Ogg file's pages are read without libav as long as they are ordinary. `reader` is for that
        alone; `seek` is `seek` with what it needs."""
        self._page_reader, self._seek_by_libav = reader, seek

    def begin_at(self, sample: int) -> None:
        """Gives the next packets these places: they continue an earlier part of the source."""
        self._at, self._begun_at, self._next_start = sample, sample, None
        if self._end is not None:
            self._end += sample

    def take(self, at_least_samples: int) -> list[SourcePacket]:
        """The next packets, so many samples or a few more; none only at the end.

        Raises PlayError when the source was interrupted, after all packets before that were returned.
        """
        if self._interruption is not None:
            raise self._interruption
        packets: list[SourcePacket] = []
        wanted_to = self._at + max(at_least_samples, 1)
        try:
            while self._at < wanted_to:
                if self._pages is not None:
                    packets += self._of_next_page(self._pages)
                    continue
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
                if self._tries_pages and data != self._tried and not self._pending and self._page_reader is not None:
                    self._tries_pages -= 1
                    self._tried = data
                    self._pages = OggPages.behind(self._page_reader, packet.pos, data)
        except PlayError as error:
            self._interruption = error
            if not packets:
                raise
        return packets

    def seek(self, sample: int, seek_to: Callable[[int], bool], timestamps: list[int]) -> list[SourcePacket]:
        """Goes to before a sample. Returns the packets up to it, and those that a decoder needs before it; the next
        ones come with `take`. Tries these timestamps one after the other; raises LookupError when none leads there."""
        self._pending.clear()
        self._interruption = None
        self._pages, self._tries_pages = None, _TRIES_PAGES
        self._left_out = 0
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
            # The second way leads from before it to behind it, too: the sample is in a hole.
            is_hole = has_passed and behind is not None and start <= behind
            if start > max(needed_from, self._first_start) and not is_hole and timestamp != timestamps[-1]:
                behind = start
                continue
            # Holes are left out, so what comes behind one sounds there.
            timestamp_start, start = start, min(start, max(sample, self._first_start))
            self._left_out = timestamp_start - start
            self._next_start, self._at = start, max(start, 0)
            self._pending.append(first)
            return self.take(sample - self._at + 1) if sample >= self._at else []
        if is_behind_end:
            return []
        raise LookupError(sample)

    def _of_next_page(self, pages: OggPages) -> list[SourcePacket]:
        """The packets of the next page; where that page is not ordinary, packets that libav reads, which then goes
        on."""
        found = pages.next_packets()
        start = self._at
        end = start + FRAME_SAMPLES * len(found or ())
        if found is None or start != self._next_start or (self._end is not None and end > self._end):
            reader, self._page_reader = self._page_reader, None
            left_out = self._left_out
            try:
                packets = [packet.earlier(left_out) for packet in self._seek_by_libav(start + left_out)]
            finally:
                self._page_reader, self._tries_pages = reader, 0
            self._left_out += left_out
            self._at -= left_out
            if self._next_start is not None:
                self._next_start -= left_out
            return self._following(start, packets)
        self._at = self._next_start = end
        starts = range(start, end, FRAME_SAMPLES)
        return [
            SourcePacket(at, FRAME_SAMPLES, at, at + FRAME_SAMPLES, data)
            for at, data in zip(starts, found, strict=True)
        ]

    def _following(self, start: int, packets: list[SourcePacket]) -> list[SourcePacket]:
        """Those that are heard from `start` on, where what was read before has ended. The sound of the first one may
        begin before; a hole between them, which timestamps without sense make, is left out."""
        packets = [packet for packet in packets if packet.audible_from >= start]
        hole = packets[0].audible_from - start if packets else 0
        if not hole:
            return packets
        self._at -= hole
        if self._next_start is not None:
            self._next_start -= hole
        return [packet.earlier(hole) for packet in packets]

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
        self._next_start = None if from_end else start + samples  # what follows begins anew
        self._at = max(audible_to, at)
        return SourcePacket(start, samples, at, self._at, data)

    def _start_of(self, packet: "Packet[AudioStream]") -> int:
        """Where the sound of a packet that a seek led to begins, by its timestamp."""
        assert packet.pts is not None
        ticks = packet.pts - self._first_timestamp
        samples = round(ticks * self._positions.time_base * SAMPLE_RATE_HZ)
        if self._positions.time_base * SAMPLE_RATE_HZ > 1:  # rounded to milliseconds
            samples = round(samples / FRAME_SAMPLES) * FRAME_SAMPLES
        return self._first_start + samples

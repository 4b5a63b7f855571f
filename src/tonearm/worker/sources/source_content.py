"""Reads the sound of one source: as PCM, or as packets when these can be passed through."""

from collections.abc import Callable, Generator
from fractions import Fraction
from typing import Final

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.frame import SAMPLE_BLOCK_BYTES, SAMPLE_RATE_HZ
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import DATA_CHUNK_BYTES, FIRST_OVERLAY_SOURCE, BeginAt, OpenSource
from tonearm.worker.media.facts import StreamTitles
from tonearm.worker.media.media import Media, open_media
from tonearm.worker.media.opus_decoding import PacketDecoding
from tonearm.worker.media.opus_packets import PREROLL_SAMPLES, OpusPackets, SourcePacket
from tonearm.worker.media.resampling import BLOCK_SAMPLES
from tonearm.worker.reading.guarded_reader import RewoundReader
from tonearm.worker.reading.reader import DescriptorReader, RequestingReader

# The samples decoded in one slot. Shorter steps would cost more CPU time.
DECODED_STEP_SAMPLES: Final = 4 * BLOCK_SAMPLES
READ_AGAIN_LIMIT_S: Final = 10.0
_READ_TOO_SLOWLY: Final = PlayFailure(
    FailureCode.DECODER_DIED,
    Stage.DECODE,
    "The decoder process died, and the source cannot be read to its position in time.",
    "Play the track again.",
)
_MOST_PARTS_LEFT_OUT: Final = 3
_OF_ONE_PART: Final = frozenset(
    {FailureCode.NO_AUDIO_STREAM, FailureCode.UNSUPPORTED_CODEC, FailureCode.NOT_AUDIO, FailureCode.CORRUPT}
)
# With a larger difference the timestamps have restarted in between.
_MOST_ROUNDED_SAMPLES: Final = 2 * SAMPLE_RATE_HZ


class _Clock:
    """Converts timestamps to samples of a source: playlists round the lengths of their segments, but containers that
    count the time through all segments do not."""

    def __init__(self) -> None:
        self._at_s: Fraction | None = None
        self._sample = 0

    def set(self, media: Media | None, sample: int) -> None:
        """Notes that `media` begins with this sample."""
        self._at_s = None if media is None else media.begins_at_s
        self._sample = sample

    def sample_of(self, media: Media | None, about: int) -> int:
        """The first sample of `media`, by its timestamp. `about` is the playlist's value, for use without a plausible
        timestamp."""
        at_s = None if media is None else media.begins_at_s
        if at_s is not None and self._at_s is not None:
            sample = self._sample + round((at_s - self._at_s) * SAMPLE_RATE_HZ)
            if abs(sample - about) <= _MOST_ROUNDED_SAMPLES:
                return sample
        self.set(media, about)
        return about


class SourceContent:
    """Reads one source, after `open`. Only for the thread that decodes it.

    The caller calls `take_packets`, or `decode_block` where `packets` is None; both return nothing only at the end.
    All methods may raise PlayError. `now_s` is a monotonic clock.
    """

    def __init__(
        self,
        order: OpenSource,
        reader: DescriptorReader | RequestingReader,
        titles: StreamTitles | None,
        now_s: Callable[[], float],
    ) -> None:
        self._order = order
        self._now_s = now_s
        self._reader = reader
        self._titles = titles
        # Packets of overlays are never passed through: overlays are always mixed.
        self._wants_packets = order.source < FIRST_OVERLAY_SOURCE
        self._media: Media | None = None
        self._clock = _Clock()
        self._begun: tuple[BeginAt, int] | None = None  # a position from which nothing was read yet, and its sample
        self.packets: OpusPackets | None = None

    def open(self) -> SourceFacts:
        """Opens the source and returns its facts."""
        begin = self._order.begin
        if begin is not None:
            self._reader.begin_at(begin.offset)
        facts = self._open_media().facts
        if begin is not None:
            self._begins(begin)
        self._wants_packets = self.packets is not None
        if self.packets is not None and self._order.is_live:
            self.packets.begin_at(self._order.start_sample)
        return facts

    @property
    def can_seek(self) -> bool:
        return self._media is not None and self._media.can_seek

    def packet_decoding(self) -> PacketDecoding | None:
        """The decoder of the packets; call this once after `open`. None for a source that is read as PCM."""
        if self.packets is None:
            return None
        return PacketDecoding(self.packets.channels, self.packets.take_codec())

    def begin_next_part(self, sample: int) -> bool:
        """Continues with the next part, which begins at this sample of the source. It may have another encoding and
        other timestamps, so the demuxer restarts. False when there is no next part."""
        self._wants_packets = self.packets is not None  # packets follow only packets
        link = b"" if self._media is None else self._media.next_link
        facts = self._reopen(link) if link else self._open_next_part()
        if facts is None:
            return False
        self._clock.set(self._media, sample)
        if self._titles is not None:
            self._titles.part_begins(sample - self._order.start_sample, facts.title if link else None)
        if self.packets is not None:
            self.packets.begin_at(sample)
        return True

    def begin_at(self, begin: BeginAt) -> int:
        """Moves to a position at which a demuxer can start. Returns the first sample there."""
        if self._begun is None or self._begun[0] != begin:
            self._reader.begin_at(begin.offset)
            self._reopen()
            self._begins(begin)
        assert self._begun is not None
        return self._begun[1]

    def _begins(self, begin: BeginAt) -> None:
        sample = self._clock.sample_of(self._media, begin.sample)
        self._begun = begin, sample
        if self.packets is not None:
            self.packets.begin_at(sample)

    def begin_again(self) -> None:
        self._reader.seek(0)
        self._reopen()

    def seek(self, sample: int) -> list[SourcePacket]:
        """Seeks to a sample: the next PCM begins there. For packets, returns those up to the sample, with those that a
        decoder needs before it. Raises `errors.UnseekableSource`, too."""
        assert self._media is not None
        if self.packets is not None:
            return self._media.seek_packets(sample)
        self._media.seek(sample)
        return []

    def decode_block(self) -> bytes:
        self._begun = None
        return b"" if self._media is None else self._media.decode_block()

    def take_packets(self, at_least_samples: int) -> list[SourcePacket]:
        """As `OpusPackets.take`."""
        self._begun = None
        assert self.packets is not None
        return self.packets.take(at_least_samples)

    def read_again_up_to(self, sample: int) -> Generator[None, None, bytes | list[SourcePacket]]:
        """As `read_up_to`, but from the start. Raises PlayError when this takes too long, even in the middle of a
        step."""
        return self.read_up_to(sample, 0, self._now_s() + READ_AGAIN_LIMIT_S)

    def read_up_to(
        self, sample: int, passed: int, until_s: float | None = None
    ) -> Generator[None, None, bytes | list[SourcePacket]]:
        """Moves to a sample by reading everything before it, through all parts, from the sample `passed` on, in steps:
        each `yield` ends a step. Returns the PCM from the sample on, or the packets as `seek` does."""
        self._begun = None
        assert self._media is not None
        pcm = b""
        preroll: list[SourcePacket] = []
        has_more = True
        while passed < sample and has_more:
            if until_s is not None:
                self._media.timed.limit(until_s - self._now_s(), _READ_TOO_SLOWLY)
            yield
            if self.packets is not None:
                packets = self.take_packets(DECODED_STEP_SAMPLES)
                passed = packets[-1].audible_to if packets else passed
                preroll = [packet for packet in (*preroll, *packets) if packet.audible_to > sample - PREROLL_SAMPLES]
                has_more = bool(packets) or self.begin_next_part(passed)
            else:
                decoded = self._media.decode(DECODED_STEP_SAMPLES)
                pcm = decoded[(sample - passed) * SAMPLE_BLOCK_BYTES :]
                passed += len(decoded) // SAMPLE_BLOCK_BYTES
                has_more = bool(decoded) or self.begin_next_part(passed)
        if self._media is not None:
            self._media.timed.unlimit()
        return pcm if self.packets is None else preroll

    def close(self) -> None:
        """Frees all memory. The reader stays open."""
        if self._media is not None:
            media, self._media = self._media, None
            media.close()

    def _open_next_part(self) -> SourceFacts | None:
        """Opens the next part of the reader; None at the end. In HLS, parts without playable audio are left out, as
        advertisements or cut off segments may be, but not too many in a row."""
        for left in reversed(range(_MOST_PARTS_LEFT_OUT + 1)):
            if not self._reader.begin_next_part():
                return None
            try:
                return self._reopen()
            except PlayError as error:
                # A station, which has a content type, may send a part without end.
                if not left or self._order.content_type or error.failure.code not in _OF_ONE_PART:
                    raise
            self.packets = None
            while self._reader.read(DATA_CHUNK_BYTES):
                pass
        return None

    def _reopen(self, first: bytes = b"") -> SourceFacts:
        facts = self._open_media(first).facts
        if self.packets is not None:
            self.packets.take_codec()  # the first decoder is still in use
        return facts

    def _open_media(self, first: bytes = b"") -> Media:
        """`first` comes before the reader's next bytes."""
        self.close()
        order = self._order
        if self._titles is not None:
            self._titles.skipped_bytes = self._reader.offset - len(first)
        self._media = open_media(
            RewoundReader(first, self._reader, keeps_offsets=False) if first else self._reader,
            name=order.name,
            content_type=order.content_type,
            size_bytes=order.size_bytes,
            is_live=order.is_live,
            titles=self._titles,
            audio=order.audio,
            is_remote=not order.has_descriptor,
            now_s=self._now_s,
        )
        self.packets = self._media.take_opus_packets() if self._wants_packets else None
        return self._media

"""The state of a source for its session: its number, its target, how far ahead it is decoded, its end, and its store.

After a seek the same open source continues under another number and with another store. Frames before the seek can
still be rendered again from the old store.
"""

import threading
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.frame import SAMPLE_BLOCK_BYTES, SAMPLE_RATE_HZ
from tonearm.core.memory_budget import LESS_AHEAD_FROM, ahead
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import (
    FIRST_OVERLAY_SOURCE,
    Decoded,
    Failed,
    FirstAudio,
    FoundPicture,
    Opened,
    OpenSource,
    ReadRequest,
    SeekRefused,
    SeekSource,
    Titled,
)
from tonearm.worker.filters.normalization import SourceLoudness
from tonearm.worker.media.opus_packets import SourcePacket
from tonearm.worker.memory import MemoryBudget
from tonearm.worker.sources.packet_store import PacketStore
from tonearm.worker.sources.pcm_store import PcmStore
from tonearm.worker.sources.source_content import DECODED_STEP_SAMPLES

AHEAD_SAMPLES: Final = 6 * SAMPLE_RATE_HZ // 5
# How far ahead packets are read without decoding. Reading takes so little time that a slot itself would cost more.
PACKETS_AHEAD_SAMPLES: Final = 4 * SAMPLE_RATE_HZ
PACKETS_STEP_SAMPLES: Final = 2 * SAMPLE_RATE_HZ
FIRST_STEP_SAMPLES: Final = SAMPLE_RATE_HZ // 10  # for PCM one block of any length
NEXT_SOURCE_SLACK_S: Final = 5.0  # added to the deadline of a source that only waits to come next
UNHEARD_SLACK_S: Final = 30.0  # added to the deadline of a source whose session has no listeners


class Use(NamedTuple):
    """How a session uses a source. `rate`: the source's samples for each heard sample. `reads_ahead`: the samples that
    have to be decoded before a frame can be made. Sources whose deadlines are less than `yields_s` later go first."""

    is_current: bool
    is_heard: bool = True
    rate: float = 1.0
    yields_s: float = 0.0
    reads_ahead: int = 0


class Demand:
    """A session's demand for a source's samples. The rendering thread changes `use`, any thread may read it.

    `reads_only`: packets are stored, and their PCM is not read. `left`: decoded samples that were not used yet.
    """

    def __init__(self, memory: MemoryBudget) -> None:
        """With less free `memory`, less is decoded ahead."""
        self._memory = memory
        self.use = Use(is_current=False)

    def needs_more(self, left: int, *, reads_only: bool) -> bool:
        """Whether there is room for a whole step."""
        return left <= self.ahead_samples(reads_only=reads_only) - step_samples(reads_only=reads_only)

    def has_room(self, left: int, *, reads_only: bool) -> bool:
        """Whether there is room for half a step."""
        return left <= self.ahead_samples(reads_only=reads_only) - step_samples(reads_only=reads_only) // 2

    def ahead_samples(self, *, reads_only: bool) -> int:
        """How far ahead the source is decoded: for 1.2 s of listening, or 4 s when packets are only read. It is hardly
        more than a step when memory is short, or without listeners, since the sound may never be heard."""
        use = self.use
        rate = max(use.rate, 1.0)
        # More than a step: whole frames are used, and part of a frame must not delay the next step. The input of a
        # frame must not delay it either: with too many samples left for a step and too few for a frame, decoding would
        # stall.
        least = step_samples(reads_only=reads_only) + max(int(FIRST_STEP_SAMPLES * rate), use.reads_ahead)
        if not use.is_heard:
            return least
        usual = max(int((PACKETS_AHEAD_SAMPLES if reads_only else AHEAD_SAMPLES) * rate), least)
        used = self._memory.used
        return usual if used <= LESS_AHEAD_FROM else ahead(usual, least, used)

    def deadline_s(self, now_s: float, left: int) -> float:
        """When the remaining samples will be used up; later for a source that is not current or has no listeners.

        It is a point in time, so that a source becomes more urgent while it waits. Ordered by `left` alone, later
        requests with slightly less left would always come first, and in a busy process the source would starve.
        """
        use = self.use
        slack_s = (0.0 if use.is_current else NEXT_SOURCE_SLACK_S) + (0.0 if use.is_heard else UNHEARD_SLACK_S)
        return now_s + int(left / max(use.rate, 1.0)) / SAMPLE_RATE_HZ + slack_s


def step_samples(*, reads_only: bool) -> int:
    return PACKETS_STEP_SAMPLES if reads_only else DECODED_STEP_SAMPLES


CursorReport: TypeAlias = ReadRequest | Opened | SeekRefused | Failed | Decoded | FirstAudio | FoundPicture | Titled
End: TypeAlias = PlayFailure | Literal["complete"]

CANNOT_SEEK: Final = PlayFailure(
    FailureCode.LIMIT_EXCEEDED,
    Stage.DECODE,
    "The source can only be played in order.",
    "Serve it from a server that supports range requests.",
)
CANNOT_SEEK_LIVE: Final = PlayFailure(
    FailureCode.LIMIT_EXCEEDED,
    Stage.DECODE,
    "The source is live, so it can only be played from now on.",
    "Play it without a start.",
)


class LeftSource(NamedTuple):
    """A source under its number before a seek, with the PCM that was decoded until then."""

    store: PcmStore
    loudness: SourceLoudness
    has_failed: bool = False


class Cursor:
    """A session's state of a source that is decoded. `report` sends messages about it to the node.

    Each change is made and reported under one lock, so reports come in the order of the changes. One thread decodes: it
    appends and ends. The rendering thread seeks, uses and finishes. Reading an attribute takes no lock.
    """

    def __init__(self, order: OpenSource, report: Callable[[CursorReport], None]) -> None:
        self._order = order
        self._report = report
        self._lock = threading.Lock()
        self._number = order.source
        self.session = order.session
        self.facts: SourceFacts | None = None  # set when they are reported
        self.target = order.start_sample if order.start_sample and not order.is_live else None  # the sample to seek to
        self.begin = order.begin  # the position from which the target is reached, if the container cannot seek
        self.ended: End | None = None
        self.used_up_to = order.start_sample
        self.store = PcmStore(order.start_sample)
        self.loudness = SourceLoudness(order.measured)
        self.has_failed = False

    @property
    def left(self) -> int:
        """Decoded samples that were not used yet."""
        return self.store.end - self.used_up_to

    @property
    def gave_audio(self) -> bool:
        """Whether any sample of the store was decoded."""
        return self.store.end > self.store.start

    @property
    def is_empty(self) -> bool:
        """Whether the source gave no samples although it was decoded from its beginning."""
        with self._lock:
            return self.store.end == self.store.start == 0 and self.target is None

    # By the rendering thread

    def seek(self, order: SeekSource, *, is_seekable: bool) -> LeftSource:
        """Continues as `order.new_source` from another sample on. Returns the source under its old number."""
        with self._lock:
            left = self._renumber(order)
            continued = None if self.target is not None else self.store.continued_from(order.start_sample)
            if continued is not None:
                self.store = continued
            elif not self._order.is_live and (self.facts is None or is_seekable or order.begin is not None):
                self.store = self.store.fresh(order.start_sample)
                self.target, self.begin = order.start_sample, order.begin
                self.ended = None if self.ended == "complete" else self.ended
            else:
                self._stay()
            self.used_up_to = self.store.start
            self._tell_end(gave_audio=False)
        return left

    def stay(self, order: SeekSource) -> LeftSource:
        """As `seek`, for a source that cannot seek and continues where it is."""
        with self._lock:
            left = self._renumber(order)
            self._stay()
            self.used_up_to = self.store.start
            self._tell_end(gave_audio=self.gave_audio)
        return left

    def finish(self, report: Failed | Decoded) -> None:
        """Applies the source's last report. Call this when the report is sent to the node."""
        if isinstance(report, Failed) and not report.gave_audio:
            self.has_failed = True
        else:
            self.store.finish(is_interrupted=isinstance(report, Failed))

    # By the thread that decodes

    def opened(self, facts: SourceFacts, packet_store: Callable[[int], PacketStore] | None = None) -> None:
        """Reports the facts of the opened source. `packet_store` makes the store from a sample on, if packets will
        follow."""
        with self._lock:
            if packet_store is not None:
                self.store = packet_store(self.store.start)
            is_of_album = facts.album is not None and facts.album == self._order.album
            album_lufs = facts.album_loudness_lufs if is_of_album else None
            self.loudness.tagged_lufs = facts.loudness_lufs if album_lufs is None else album_lufs
            self.facts = facts
            self._report(Opened(self.session, self._number, facts))

    def begin_with(self, store: PcmStore) -> None:
        """From now on samples are appended to `store`, which is empty."""
        with self._lock:
            self.store = store

    def arrive(self, target: int) -> None:
        """The next decoded sample is `target`, which may be out of date."""
        with self._lock:
            if self.target == target:
                self.target = None

    def begin_again(self, why: PlayFailure) -> None:
        """The next decoded sample is the source's first, because the seek failed."""
        with self._lock:
            self.target = None
            self.store.begin_at(0)
            self.used_up_to = 0
            self._report(SeekRefused(self.session, self._number, why))

    def append(self, pcm: bytes) -> bool:
        """Appends the next samples, unless a seek is due. False when the last requested sample is in the store."""
        end_sample = self._order.end_sample
        with self._lock:
            if self.target is not None:
                return True  # these samples belong to the old position
            is_last = end_sample is not None and self.store.end + len(pcm) // SAMPLE_BLOCK_BYTES >= end_sample
            if end_sample is not None and is_last:
                pcm = pcm[: max(end_sample - self.store.end, 0) * SAMPLE_BLOCK_BYTES]
            is_first = not self.gave_audio
            if pcm:
                self.store.append(pcm)
                if is_first and self._number >= FIRST_OVERLAY_SOURCE:
                    self._report(FirstAudio(self.session, self._number))
        return not is_last

    def append_packets(self, packets: list[SourcePacket]) -> bool:
        end_sample = self._order.end_sample
        with self._lock:
            if self.target is not None:
                return True
            is_last = end_sample is not None and bool(packets) and packets[-1].audible_to >= end_sample
            if end_sample is not None and is_last:
                packets = [packet.cut_at(end_sample) for packet in packets if packet.audible_from < end_sample]
            if isinstance(self.store, PacketStore):
                self.store.append_packets(packets)
        return not is_last

    def titled(self, sample: int, title: str) -> None:
        with self._lock:
            self._report(Titled(self.session, self._number, sample, title))

    def end(self, how: End) -> None:
        """Notes that no samples follow, unless a seek is due. Only the first end counts."""
        with self._lock:
            if self.ended is None and (how != "complete" or self.target is None):
                self.ended = how
                self._tell_end(gave_audio=self.gave_audio)

    # With the lock

    def _renumber(self, order: SeekSource) -> LeftSource:
        left = LeftSource(self.store, self.loudness)
        self._number, self.has_failed = order.new_source, False
        if self.facts is not None:
            self._report(Opened(self.session, self._number, self.facts))
        return left

    def _stay(self) -> None:
        self.store = self.store.continued_from(max(self.used_up_to, self.store.oldest)) or self.store
        self._report(SeekRefused(self.session, self._number, CANNOT_SEEK))

    def _tell_end(self, *, gave_audio: bool) -> None:
        if isinstance(self.ended, PlayFailure):
            self._report(Failed(self.session, self._number, self.ended, gave_audio))
        elif self.ended is not None:
            self._report(Decoded(self.session, self._number))

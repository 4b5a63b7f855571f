"""The sources of a session, read by heard samples.

Without a timescale these are the samples of the files, and sources have the node's numbers. With a timescale,
`StretchedSource`s are joined, mixed and stored, with numbers and samples of their own. Plans, messages and the release
of PCM require the sources and samples of the files: `file_of`, `file_sample`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import count
from typing import Final, Protocol

from tonearm.core.filters import Filters, Timescale
from tonearm.decoder.messages import Measured
from tonearm.worker.filters.normalization import SourceLoudness
from tonearm.worker.mixing.overlays import Supply
from tonearm.worker.mixing.timescale import MARGIN_SAMPLES, StretchedSource, reads_ahead
from tonearm.worker.rendering.timeline import SourcePosition, Timeline
from tonearm.worker.sources.pcm_store import PcmStore, Segment

# Sources at a timescale are numbered from here on, above all numbers of the node.
_FIRST_STRETCHED: Final = 1 << 32


class SessionSource(Protocol):
    @property
    def store(self) -> PcmStore: ...

    @property
    def loudness(self) -> SourceLoudness: ...

    @property
    def has_failed(self) -> bool:
        """True when the source failed before its first sample, so that no samples will come."""


class SessionSources:
    """Reads the sources in `opened`, which their owner opens and drops. For the rendering thread.

    `next_of` has the source that joins at the end of another source, both by the node's numbers: at a timescale the
    first samples after a joint are made of both.
    """

    def __init__(self, opened: Mapping[int, SessionSource], filters: Filters) -> None:
        self._opened = opened
        self._timescale = _timescale_in(filters)
        self._stretched: dict[int, StretchedSource] = {}
        self._stretched_numbers = count(_FIRST_STRETCHED)
        self._has_measured = False
        self.next_of: dict[int, int | None] = {}

    # Numbers and positions

    @property
    def position_rate(self) -> float:
        """The number of samples of a file for each heard sample."""
        return 1.0 if self._timescale is None else self._timescale.position_rate

    @property
    def reads_ahead(self) -> int:
        """The number of decoded samples of a file that the next frame requires."""
        return 0 if self._timescale is None else reads_ahead(self._timescale)

    @property
    def are_stretched(self) -> bool:
        return self._timescale is not None

    def use_timescale(self, filters: Filters) -> None:
        """Positions use the timescale of these settings from now on."""
        self._timescale = _timescale_in(filters)

    def is_at_newest_timescale(self, source: int) -> bool:
        """Whether a source that is read is at the timescale in force."""
        stretched = self._stretched.get(source)
        return (None if stretched is None else stretched.setting) == self._timescale

    def file_of(self, source: int) -> int:
        stretched = self._stretched.get(source)
        return source if stretched is None else stretched.source

    def file_sample(self, source: int, sample: int) -> int:
        """The sample of the file for a heard sample."""
        stretched = self._stretched.get(source)
        return sample if stretched is None else round(stretched.file_sample(sample))

    def heard_sample(self, source: int, file_sample: int) -> int:
        """The first heard sample at or after a sample of the file."""
        stretched = self._stretched.get(source)
        return file_sample if stretched is None else stretched.heard_sample(file_sample)

    def first_of(self, position: SourcePosition) -> SourcePosition | None:
        """The position of the first sample of a source that has not begun. None while that sample is not certain."""
        store = self.store_of(position.source)
        if store is None or (store.end == store.oldest and not store.is_finished):
            return None
        return self.position_in(position.source, store.oldest, has_begun=False, joins=position.joins)

    def position_in(self, source: int, sample: int, *, has_begun: bool, joins: int = 0) -> SourcePosition:
        """The position of this sample of the file in a source at the newest timescale. `joins`: the source at whose end
        it begins."""
        return self._position_at(self._timescale, source, sample, has_begun=has_begun, joins=joins)

    def joined_to(self, source: int) -> SourcePosition | None:
        """The beginning of the source that joins at the end of `source`, at the timescale of `source`. None when no
        source with samples joins."""
        stretched = self._stretched.get(source)
        next_source = self.next_of.get(self.file_of(source))
        if next_source is None or not self.has_samples(next_source):
            return None
        timescale, start = None if stretched is None else stretched.setting, self._opened[next_source].store.oldest
        return self._position_at(timescale, next_source, start, has_begun=False, joins=source)

    def _position_at(
        self, timescale: Timescale | None, source: int, sample: int, *, has_begun: bool, joins: int
    ) -> SourcePosition:
        if timescale is None:
            return SourcePosition(source, sample, has_begun)
        for number, stretched in self._stretched.items():
            # After another source, or from another start, the pieces have other positions in the wave.
            known = stretched.source, stretched.setting, stretched.store.start, stretched.joins
            if known == (source, timescale, sample, joins) and stretched.store.oldest == sample:
                return SourcePosition(number, sample, has_begun)
        number = next(self._stretched_numbers)
        file, before = self._opened[source].store, self._stretched.get(joins)
        joined = before.begin_next(source, file) if before is not None and before.setting == timescale else None
        stretched = self._stretched[number] = joined or StretchedSource(source, file, timescale, sample)
        stretched.joins = joins
        return SourcePosition(number, sample, has_begun)

    # PCM

    def store_of(self, source: int) -> PcmStore | None:
        """The PCM of a source as far as it is made. None for a source that is not open yet."""
        known = self._stretched.get(source) or self._opened.get(source)
        return None if known is None else known.store

    def made(self, source: int, up_to: int) -> PcmStore | None:
        """The PCM of a source, made up to a sample as far as that is possible."""
        stretched = self._stretched.get(source)
        if stretched is not None:
            next_source = self.next_of.get(stretched.source)
            if next_source is not None and self.has_samples(next_source) and not stretched.store.is_finished:
                stretched.following = self._opened[next_source].store
            stretched.make(up_to)
        return self.store_of(source)

    def view(self, source: int, sample: int, count: int) -> bytes | memoryview:
        """Up to `count` samples from `sample` on, s16le stereo: fewer at the end, none of released PCM."""
        store = self.made(source, sample + count)
        if store is None:
            return b""
        count = min(count, store.end - sample)
        return store.view(sample, count) if count > 0 and sample >= store.oldest else b""

    def pcm_of(self, segments: Iterable[Segment]) -> bytes | memoryview:
        """The PCM of these segments, one after the other, without segments of sources that are gone. It is not copied
        where possible."""
        pieces = [self.view(source, sample, length) for _, source, sample, length in segments]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def release(self, timelines: Collection[Timeline], current: int) -> None:
        """Frees the PCM before all samples that these timelines may render again. Also frees the sources at a timescale
        that are in none of the timelines, except the `current` source."""
        oldest: dict[int, int] = {}
        for timeline in timelines:
            for source, sample in timeline.oldest_samples().items():
                oldest[source] = min(sample, oldest.get(source, sample))
        for number in self._stretched.keys() - oldest.keys() - {current}:
            del self._stretched[number]
        for number, stretched in self._stretched.items():
            if number in oldest:
                sample = oldest[number]
                stretched.store.release_before(sample)
                needed = int(stretched.file_sample(sample)) - MARGIN_SAMPLES
                oldest[stretched.source] = min(needed, oldest.get(stretched.source, needed))
        for number, opened in self._opened.items():
            if number in oldest:
                opened.store.release_before(oldest[number])

    # State of the sources with the node's numbers

    def start_of(self, source: int) -> int:
        """The first requested sample of the file."""
        return self._opened[source].store.start

    def has_samples(self, source: int) -> bool:
        opened = self._opened.get(source)
        return opened is not None and opened.store.end > opened.store.oldest

    def may_give_samples(self, source: int) -> bool:
        """Whether its first samples may still come."""
        opened = self._opened.get(source)
        return opened is None or not (opened.has_failed or opened.store.is_finished)

    def may_go_on(self, source: int) -> bool:
        """Whether more samples of a source's file may be decoded."""
        opened = self._opened.get(self.file_of(source))
        return opened is not None and not opened.has_failed

    def supply_of(self, source: int) -> Supply | None:
        """The decoded samples of an overlay. None if the overlay is not open yet."""
        opened = self._opened.get(source)
        if opened is None:
            return None
        store = opened.store
        is_finished = store.is_finished or opened.has_failed  # read first, since it is set last
        return Supply(store.oldest, store.end, is_finished, store.is_interrupted)

    # Loudness

    def loudness_of(self, source: int) -> SourceLoudness:
        known = self._opened.get(source)
        return SourceLoudness() if known is None else known.loudness

    def measure(self, segment: Segment, pcm: bytes | memoryview) -> None:
        """Measures the PCM of a segment's beginning for the loudness of its source."""
        loudness = self.loudness_of(self.file_of(segment.source))
        if pcm and loudness.tagged_lufs is None:
            self._has_measured = True
            loudness.measure(pcm, self.file_sample(segment.source, segment.sample), self.position_rate)

    def take_measured(self, session: int) -> Iterator[Measured]:
        """New loudness measurements of sources, for the node to store."""
        if not self._has_measured:
            return
        self._has_measured = False
        for number, source in self._opened.items():
            measured = source.loudness.take_measured()
            if measured is not None:
                yield Measured(session, number, measured.lufs, measured.measured_ms)


def _timescale_in(filters: Filters) -> Timescale | None:
    timescale = filters.effects.timescale
    return None if timescale is None or timescale.changes_nothing else timescale

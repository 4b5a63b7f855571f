"""A live stream that is decoded once for all sessions of a process that play it.

Each session has a store of its own, in which samples are numbered from where it came, and which shares the decoded
pieces with those of the others. So a session renders and releases as with a source of its own, and what it does, or
does not do, is nothing to the others.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.frame import SAMPLE_BLOCK_BYTES, SAMPLE_RATE_HZ
from tonearm.core.memory_budget import LESS_AHEAD_FROM, ahead
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import Decoded, Failed, Opened, OpenSource, SeekFailed, SeekSource, Titled
from tonearm.worker.filters.normalization import SourceLoudness
from tonearm.worker.media.facts import TitleChange
from tonearm.worker.media.opus_packets import SourcePacket
from tonearm.worker.reading.own_errors import OwnErrors
from tonearm.worker.sources.packet_store import PacketStore
from tonearm.worker.sources.pcm_store import PcmStore
from tonearm.worker.sources.scheduler import DecodeScheduler, DecodeThreads
from tonearm.worker.sources.source import (
    AHEAD_SAMPLES,
    CANNOT_SEEK,
    DROPPED_DEADLINE_S,
    FIRST_STEP_SAMPLES,
    PACKETS_AHEAD_SAMPLES,
    PACKETS_STEP_SAMPLES,
    DecodingSource,
    LeftSource,
    Memory,
    Report,
    deadline_s,
    tagged_loudness_lufs,
)
from tonearm.worker.sources.source_content import STEP_SAMPLES

# What is kept for a session that reads nothing since it is paused. The node gives up one that is paused for long.
MOST_BEHIND_SAMPLES: Final = 15 * SAMPLE_RATE_HZ
# What a session that was so far behind has left when it goes on with what is new.
_REJOIN_SAMPLES: Final = SAMPLE_RATE_HZ // 5
_NEVER_S: Final = 1e12

_ENDED: Final = PlayFailure(
    FailureCode.DECODER_DIED,
    Stage.DECODE,
    "The live stream is not decoded any more, because of an error that is not its own.",
    "Play the track again.",
)


class LiveSource(DecodingSource):
    """Decodes a live stream for its members, ahead of the one that needs it most.

    `store` keeps what was decoded last: with that a member begins that comes later.
    """

    def __init__(
        self,
        order: OpenSource,
        *,
        decoding: DecodeScheduler,
        opening: DecodeScheduler,
        threads: DecodeThreads,
        report: Callable[[Report], None],
        pcm_decoded: Callable[[int], None],
        note: Callable[[int, int], None],
        errors: OwnErrors,
        memory: Memory | None = None,
    ) -> None:
        super().__init__(
            order,
            None,
            decoding=decoding,
            opening=opening,
            threads=threads,
            report=report,
            pcm_decoded=pcm_decoded,
            note=note,
            errors=errors,
            memory=memory,
        )
        self.reads_only = True  # its packets are kept, and no member reads them decoded
        self._members: tuple[LiveMember, ...] = ()  # replaced as a whole, with the lock
        self._is_open = False  # who joins is given what there is
        self._last: PlayFailure | Decoded | None = None  # how it ended
        self._told: deque[TitleChange] = deque()  # the title of the oldest sample in `store`, and those after it

    @property
    def lock(self) -> AbstractContextManager[bool]:
        """Who holds it may change what is told to members."""
        return self._seek_lock

    # Called by the rendering thread

    def join(self, member: "LiveMember") -> None:
        """A session plays it, too, from about where the others are."""
        with self._seek_lock:
            if self._last is not None:
                member.end(self._last)
                return
            self._members = (*self._members, member)
            if self._is_open and self._facts is not None:
                member.opened(self._facts)
                self._enter(member)

    def leave(self, member: "LiveMember") -> None:
        with self._seek_lock:
            self._members = tuple(other for other in self._members if other is not member)

    def enter_again(self, member: "LiveMember") -> None:
        """A member that was too far behind goes on with what is new."""
        with self._seek_lock:
            self._enter(member)
        self._pcm_decoded(member.session)

    def drop(self) -> None:
        self._end(_ENDED)
        super().drop()

    def used(self, sample: int, *, is_current: bool, is_heard: bool = True, rate: float = 1.0) -> bool:
        return False  # its members say that

    def fill_up(self) -> None:
        pass

    def resume(self, *, hastens: bool = False) -> bool:
        """A member needs more. True when decoding was resumed for it."""
        if hastens:
            self._hasten()
        return self._resume()

    # While it holds a slot

    def _opened(self, facts: SourceFacts) -> None:
        super()._opened(facts)
        if isinstance(self.store, PacketStore):
            self.store.rest()  # who reads decodes
        else:
            self.reads_only = False
        with self._seek_lock:
            self._is_open = True
            for member in self._members:
                member.opened(facts)
                self._enter(member)

    def _report_failure(self, failure: PlayFailure) -> None:
        super()._report_failure(failure)
        self._end(failure)

    def _report_end(self) -> None:
        super()._report_end()
        self._end(Decoded(self._order.session, self._order.source))

    def _end(self, how: PlayFailure | Decoded) -> None:
        with self._seek_lock:
            if self._last is None:
                self._last = how
                for member in self._members:
                    member.end(how)
                self._members = ()

    def _report_titles(self) -> None:
        changes = self._titles.take_changes() if self._titles is not None else []
        if not changes:
            return
        with self._seek_lock:
            self._told.extend(changes)
            while len(self._told) > 1 and self._told[1].sample <= self.store.oldest:
                self._told.popleft()
            for member in self._members:
                member.titled(changes)

    def _append(self, pcm: bytes) -> bool:
        with self._seek_lock:
            self.store.append(pcm)
            self._forget_old()
            members = self._members
            for member in members:
                member.append(pcm)
        for member in members:
            self._pcm_decoded(member.session)
        return True

    def _append_packets(self, packets: list[SourcePacket]) -> bool:
        if not packets:
            return False
        with self._seek_lock:
            if isinstance(self.store, PacketStore):
                self.store.append_packets(packets)
            self._forget_old()
            members = self._members
            for member in members:
                member.append_packets(packets)
            self.reads_only = not any(member.reads_pcm for member in members)
        for member in members:
            self._pcm_decoded(member.session)
            member.decode_ahead()
        return True

    def _forget_old(self) -> None:
        self.store.release_before(self.store.end - self._kept_samples)

    @property
    def _kept_samples(self) -> int:
        return PACKETS_AHEAD_SAMPLES if self.reads_only else AHEAD_SAMPLES

    def _enter(self, member: "LiveMember") -> None:
        """With the lock: gives a member what was decoded last, and the title of it."""
        store = self.store
        if isinstance(store, PacketStore) and not store.pieces():
            first, packets = store.packets_from(store.oldest)
            if member.begin(store, first):  # else there are others before them
                packets = [packet for packet in packets if packet.audible_from >= first]
            member.append_packets(packets)
        else:
            pieces = store.pieces()
            member.begin(store, pieces[0][0] if pieces else store.end)
            for _, pcm in pieces:
                member.append(pcm)
        member.titled(self._told)

    def _needs_more(self) -> bool:
        return self._is_dropped or any(member.needs_more for member in self._members)

    @property
    def _reads_only(self) -> bool:
        return self.reads_only

    def _deadline_s(self) -> float:
        if self._is_dropped:
            return DROPPED_DEADLINE_S
        now_s = time.monotonic()
        return min((member.deadline_s(now_s) for member in self._members), default=now_s)

    @property
    def _ahead_samples(self) -> int:
        return 0  # of `store`, which nobody reads


class LiveMember:
    """A live stream in one session: a source like others, that is decoded by a `LiveSource`.

    `live` is None where there is none any more. The rendering thread reads `store`; what has an underscore belongs to
    whoever holds the lock of the `LiveSource`.
    """

    def __init__(self, order: OpenSource, live: LiveSource | None, report: Callable[[Report], None]) -> None:
        self._order = order
        self._live = live
        self._report = report
        self._number = order.source
        self._facts: SourceFacts | None = None
        self._shift = 0  # of its samples to those of the stream
        self._is_behind = False  # so far that it gets nothing for now
        self._how: PlayFailure | Decoded | None = None  # it ended
        self._begun_at = order.start_sample
        self._last_title = ""
        self._used_up_to = order.start_sample
        self._is_current = False
        self._is_heard = True
        self._rate = 1.0
        self.store = PcmStore(order.start_sample)
        self.loudness = SourceLoudness(order.measured)
        self.has_failed = False

    @property
    def opened_as(self) -> int:
        return self._order.source

    @property
    def session(self) -> int:
        return self._order.session

    # Called by the rendering thread, as those of a `DecodingSource`

    def start(self) -> None:
        if self._live is None:
            self.end(_ENDED)
        else:
            self._live.join(self)
            if self.needs_more:
                self._live.resume()

    def drop(self) -> None:
        if self._live is not None:
            self._live.leave(self)

    def seek(self, order: SeekSource) -> LeftSource:
        """It goes on where it is: a live stream has no other place."""
        with nullcontext() if self._live is None else self._live.lock:
            left = LeftSource(self.store, self.loudness)
            self._number, self.has_failed = order.new_source, False
            if self._facts is not None:
                self._report(Opened(order.session, order.new_source, self._facts))
            self._report(SeekFailed(order.session, order.new_source, CANNOT_SEEK))
            self.store = self.store.continued_from(max(self._used_up_to, self.store.oldest)) or self.store
            self._used_up_to = self.store.start
            if self._how is not None:
                self._report_how(self._how)
        return left

    def used(self, sample: int, *, is_current: bool, is_heard: bool = True, rate: float = 1.0) -> bool:
        self._used_up_to = sample
        self._is_current = is_current
        self._rate = max(rate, 1.0)
        hastens, self._is_heard = is_heard and not self._is_heard, is_heard
        live = self._live
        if live is None or not self.needs_more:
            return False
        if self._is_behind and self.store.end - sample <= _REJOIN_SAMPLES:
            live.enter_again(self)
        return live.resume(hastens=hastens)

    def fill_up(self) -> None:
        if self._live is not None and self._how is None and self._left <= self._ahead_samples - self._step // 2:
            self._live.resume()

    def finish(self, report: Failed | Decoded) -> None:
        if isinstance(report, Failed) and not report.gave_audio:
            self.has_failed = True
        else:
            self.store.finish(is_interrupted=isinstance(report, Failed))

    # Asked by the `LiveSource`, in any thread

    @property
    def needs_more(self) -> bool:
        return self._how is None and self._left <= self._ahead_samples - self._step

    @property
    def reads_pcm(self) -> bool:
        """Whether packets are decoded for it."""
        return isinstance(self.store, PacketStore) and self.store.is_read

    def deadline_s(self, now_s: float) -> float:
        """When what it has is used up."""
        if self._how is not None:
            return _NEVER_S
        left = int(self._left / self._rate)
        return deadline_s(now_s, left, is_current=self._is_current, is_heard=self._is_heard)

    def decode_ahead(self) -> None:
        """Where somebody reads the PCM of its packets."""
        if self.reads_pcm and isinstance(self.store, PacketStore):
            self.store.decode_ahead(self._used_up_to + AHEAD_SAMPLES)

    @property
    def _left(self) -> int:
        return self.store.end - self._used_up_to

    @property
    def _reads_only(self) -> bool:
        return self._live is not None and self._live.reads_only

    @property
    def _step(self) -> int:
        return PACKETS_STEP_SAMPLES if self._reads_only else STEP_SAMPLES

    @property
    def _ahead_samples(self) -> int:
        if not self._is_heard:
            return self._step
        usual = int((PACKETS_AHEAD_SAMPLES if self._reads_only else AHEAD_SAMPLES) * self._rate)
        used = 0.0 if self._live is None else self._live.memory.used
        return usual if used <= LESS_AHEAD_FROM else ahead(usual, self._step + FIRST_STEP_SAMPLES, used)

    # Told by the `LiveSource`, which holds its lock

    def opened(self, facts: SourceFacts) -> None:
        self._facts = facts
        self.loudness.tagged_lufs = tagged_loudness_lufs(facts, self._order.album)
        self._report(Opened(self.session, self._number, facts))

    def begin(self, stream: PcmStore, first: int) -> bool:
        """The next sample is `first` of the stream. Whether there are others before it already."""
        goes_on, self._is_behind = self._is_behind, False
        if not goes_on:
            self.store = stream.fresh(self._order.start_sample)
        self._begun_at = self.store.end
        self._shift = self._begun_at - first
        return goes_on

    def append(self, pcm: bytes) -> None:
        """The next samples of the stream."""
        if not self._takes_more():
            return
        end_sample = self._order.end_sample
        if end_sample is not None and self.store.end + len(pcm) // SAMPLE_BLOCK_BYTES >= end_sample:
            pcm = pcm[: max(end_sample - self.store.end, 0) * SAMPLE_BLOCK_BYTES]
            if pcm:
                self.store.append(pcm)
            self.end(Decoded(self.session, self._number))
        else:
            self.store.append(pcm)

    def append_packets(self, packets: list[SourcePacket]) -> None:
        """As `append`."""
        if not self._takes_more() or not isinstance(self.store, PacketStore):
            return
        moved = [packet.earlier(-self._shift) for packet in packets] if self._shift else packets
        end_sample = self._order.end_sample
        if end_sample is not None and moved and moved[-1].audible_to >= end_sample:
            self.store.append_packets([one.cut_at(end_sample) for one in moved if one.audible_from < end_sample])
            self.end(Decoded(self.session, self._number))
        else:
            self.store.append_packets(moved)

    def titled(self, changes: Sequence[TitleChange]) -> None:
        """Of those that lie before what it has only the last one counts."""
        for at, change in enumerate(changes):
            sample = change.sample + self._shift
            is_past = at + 1 < len(changes) and changes[at + 1].sample + self._shift <= self._begun_at
            if not is_past and not self._is_behind and change.title != self._last_title:
                self._last_title = change.title
                self._report(Titled(self.session, self._number, max(sample, self._begun_at), change.title))

    def end(self, how: PlayFailure | Decoded) -> None:
        """Nothing more comes."""
        if self._how is None:
            self._how = how
            self._report_how(how)

    def _report_how(self, how: PlayFailure | Decoded) -> None:
        if isinstance(how, Decoded):
            self._report(Decoded(self.session, self._number))
        else:
            gave_audio = self.store.end > self.store.start
            self._report(Failed(self.session, self._number, how, gave_audio))

    def _takes_more(self) -> bool:
        if self._left > MOST_BEHIND_SAMPLES:
            self._is_behind = True
        return self._how is None and not self._is_behind

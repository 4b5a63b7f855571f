"""A live stream that is decoded once for all sessions of a process that play it.

Each session has its own store, whose samples are numbered from where the session joined. The stores share the decoded
pieces. So a session renders and releases as with its own source, and does not affect the others.
"""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.frame import SAMPLE_RATE_HZ
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import OpenSource, SeekSource
from tonearm.worker.media.facts import TitleChange
from tonearm.worker.media.opus_packets import SourcePacket
from tonearm.worker.sources.cursor import AHEAD_SAMPLES, PACKETS_AHEAD_SAMPLES, Cursor, Demand, End, LeftSource, Use
from tonearm.worker.sources.packet_store import PacketStore
from tonearm.worker.sources.pcm_store import PcmStore
from tonearm.worker.sources.source import DecodingSource, SourceServices

# The samples stored for a session that reads none because it is paused. The node ends a source that is paused for long.
MOST_BEHIND_SAMPLES: Final = 15 * SAMPLE_RATE_HZ
# A session that was this far behind continues with new samples when it has only this much left.
_REJOIN_SAMPLES: Final = SAMPLE_RATE_HZ // 5
_NEVER_S: Final = 1e12

_ENDED: Final = PlayFailure(
    FailureCode.DECODER_DIED,
    Stage.DECODE,
    "The live stream is no longer decoded, because the node failed.",
    "Play the track again.",
)


class LiveSource(DecodingSource):
    """Decodes a live stream for its members, by the demand of the most urgent member.

    `cursor.store` has the newest samples, with which later members begin.
    """

    def __init__(self, order: OpenSource, services: SourceServices) -> None:
        super().__init__(order, None, services)
        self.reads_only = True  # its packets are stored, and no member reads their PCM
        self._lock = threading.Lock()  # guards the reports to members
        self._members: tuple[LiveMember, ...] = ()  # replaced as a whole
        self._is_open = False  # a new member receives the stored samples
        self._last: End | None = None  # how the stream ended
        self._told: deque[TitleChange] = deque()  # titles from the store's oldest sample on

    # Called by the rendering thread

    def join(self, member: "LiveMember") -> None:
        """Adds a session, which begins at about the position of the others."""
        with self._lock:
            if self._last is not None:
                member.cursor.end(self._last)
                return
            self._members = (*self._members, member)
            if self._is_open and self.cursor.facts is not None:
                member.cursor.opened(self.cursor.facts)
                self._enter(member)

    def leave(self, member: "LiveMember") -> None:
        with self._lock:
            self._members = tuple(other for other in self._members if other is not member)

    def enter_again(self, member: "LiveMember") -> None:
        """Lets a member that was too far behind continue with new samples."""
        with self._lock:
            self._enter(member)
        self.services.pcm_decoded(member.cursor.session)

    def drop(self) -> None:
        self._end_members(_ENDED)
        super().drop()

    def used(self, sample: int, use: Use) -> bool:
        return False  # its members report their use

    def fill_up(self) -> None:
        pass

    def resume(self, *, hastens: bool = False) -> bool:
        """Call this when a member needs more samples. True when decoding was resumed for it."""
        if hastens:
            self._job.hasten()
        return self._job.resume()

    # Its work

    @property
    def needs_more(self) -> bool:
        return any(member.needs_more for member in self._members)

    @property
    def yields_s(self) -> float:
        return min((member.yields_s for member in self._members), default=0.0)

    def deadline_s(self, now_s: float) -> float:
        return min((member.deadline_s(now_s) for member in self._members), default=now_s)

    @property
    def _reads_only(self) -> bool:
        return self.reads_only

    def _opened(self, facts: SourceFacts) -> None:
        super()._opened(facts)
        if isinstance(self.cursor.store, PacketStore):
            self.cursor.store.stop_reading()  # each member decodes its own packets
        else:
            self.reads_only = False
        with self._lock:
            self._is_open = True
            for member in self._members:
                member.cursor.opened(facts)
                self._enter(member)

    def _append(self, pcm: bytes) -> bool:
        with self._lock:
            self.cursor.append(pcm)
            self._forget_old()
            members = self._members
            for member in members:
                member.append(pcm)
        for member in members:
            self.services.pcm_decoded(member.cursor.session)
        return True

    def _append_packets(self, packets: list[SourcePacket]) -> bool:
        if not packets:
            return False
        with self._lock:
            self.cursor.append_packets(packets)
            self._forget_old()
            members = self._members
            for member in members:
                member.append_packets(packets)
            self.reads_only = not any(member.reads_pcm for member in members)
        for member in members:
            self.services.pcm_decoded(member.cursor.session)
            member.decode_ahead()
        return True

    def _report_titles(self) -> None:
        changes = self._titles.take_changes() if self._titles is not None else []
        if not changes:
            return
        with self._lock:
            self._told.extend(changes)
            while len(self._told) > 1 and self._told[1].sample <= self.cursor.store.oldest:
                self._told.popleft()
            for member in self._members:
                member.titled(changes)

    def _end(self, how: End) -> None:
        super()._end(how)
        self._end_members(how)

    def _end_members(self, how: End) -> None:
        with self._lock:
            if self._last is None:
                self._last = how
                for member in self._members:
                    member.cursor.end(how)
                self._members = ()

    # With the lock

    def _forget_old(self) -> None:
        kept = PACKETS_AHEAD_SAMPLES if self.reads_only else AHEAD_SAMPLES
        self.cursor.store.release_before(self.cursor.store.end - kept)

    def _enter(self, member: "LiveMember") -> None:
        """Gives a member the stored samples and their titles."""
        store = self.cursor.store
        if isinstance(store, PacketStore) and not store.pieces():
            first, packets = store.packets_from(store.oldest)
            if member.begin(store, first):  # the member's store has other packets before these
                packets = [packet for packet in packets if packet.audible_from >= first]
            member.append_packets(packets)
        else:
            pieces = store.pieces()
            member.begin(store, pieces[0][0] if pieces else store.end)
            for _, pcm in pieces:
                member.append(pcm)
        member.titled(self._told)


class LiveMember:
    """A live stream in one session: a source like others, but a `LiveSource` decodes it.

    `live` is None when the `LiveSource` is gone. The rendering thread reads `cursor`; attributes with an underscore
    belong to the thread with the lock of the `LiveSource`.
    """

    def __init__(self, order: OpenSource, live: LiveSource | None, services: SourceServices) -> None:
        self._order = order
        self.opened_as = order.source
        self._live = live
        self._shift = 0  # from the stream's sample numbers to its own
        self._is_behind = False  # so far that it receives no samples for now
        self._begun_at = order.start_sample
        self._last_title = ""
        self.cursor = Cursor(order, services.report)
        self._demand = Demand(services.memory)

    # Called by the rendering thread, like the methods of a `DecodingSource`

    def start(self) -> None:
        if self._live is None:
            self.cursor.end(_ENDED)
        else:
            self._live.join(self)
            if self.needs_more:
                self._live.resume()

    def drop(self) -> None:
        if self._live is not None:
            self._live.leave(self)

    def seek(self, order: SeekSource) -> LeftSource:
        return self.cursor.stay(order)

    def used(self, sample: int, use: Use) -> bool:
        self.cursor.used_up_to = sample
        was_heard, self._demand.use = self._demand.use.is_heard, use
        live = self._live
        if live is None or not self.needs_more:
            return False
        if self._is_behind and self.cursor.left <= _REJOIN_SAMPLES:
            live.enter_again(self)
        return live.resume(hastens=use.is_heard and not was_heard)

    def fill_up(self) -> None:
        live, cursor = self._live, self.cursor
        if live is not None and cursor.ended is None and self._demand.has_room(cursor.left, reads_only=live.reads_only):
            live.resume()

    # Called by the `LiveSource`, in any thread

    @property
    def needs_more(self) -> bool:
        live, cursor = self._live, self.cursor
        return (
            live is not None
            and cursor.ended is None
            and self._demand.needs_more(cursor.left, reads_only=live.reads_only)
        )

    @property
    def reads_pcm(self) -> bool:
        return isinstance(self.cursor.store, PacketStore) and self.cursor.store.is_read

    @property
    def yields_s(self) -> float:
        return self._demand.use.yields_s

    def deadline_s(self, now_s: float) -> float:
        """The time at which its samples are used up."""
        cursor = self.cursor
        return _NEVER_S if cursor.ended is not None else self._demand.deadline_s(now_s, cursor.left)

    def decode_ahead(self) -> None:
        """Decodes ahead if the PCM of its packets is read."""
        store = self.cursor.store
        if isinstance(store, PacketStore) and store.is_read:
            store.decode_ahead(self.cursor.used_up_to + AHEAD_SAMPLES)

    # Called by the `LiveSource`, which holds its lock

    def begin(self, stream: PcmStore, first: int) -> bool:
        """The next sample is the stream's sample `first`. Returns whether the store already has samples before it."""
        goes_on, self._is_behind = self._is_behind, False
        if not goes_on:
            self.cursor.begin_with(stream.fresh(self._order.start_sample))
        self._begun_at = self.cursor.store.end
        self._shift = self._begun_at - first
        return goes_on

    def append(self, pcm: bytes) -> None:
        if self._takes_more() and not self.cursor.append(pcm):
            self.cursor.end("complete")

    def append_packets(self, packets: list[SourcePacket]) -> None:
        if not self._takes_more():
            return
        moved = [packet.earlier(-self._shift) for packet in packets] if self._shift else packets
        if not self.cursor.append_packets(moved):
            self.cursor.end("complete")

    def titled(self, changes: Sequence[TitleChange]) -> None:
        """Reports titles. Among titles before the member's first sample only the last one counts."""
        for at, change in enumerate(changes):
            sample = change.sample + self._shift
            is_past = at + 1 < len(changes) and changes[at + 1].sample + self._shift <= self._begun_at
            if not is_past and not self._is_behind and change.title != self._last_title:
                self._last_title = change.title
                self.cursor.titled(max(sample, self._begun_at), change.title)

    def _takes_more(self) -> bool:
        if self.cursor.left > MOST_BEHIND_SAMPLES:
            self._is_behind = True
        return self.cursor.ended is None and not self._is_behind

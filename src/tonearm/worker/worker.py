"""The decoder process: one thread reads the socket, one renders and writes, one encodes MP3, the others open and
decode.

The threads share the inbox (a queue), and the stores and readers of the sources (each with a lock). They also share the
table in which the reading thread looks up the source for received bytes (single operations on a dict). Everything else
belongs to the rendering thread.
"""

import math
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, TypeVar

from tonearm.core.admission import NEWEST_YIELDS_S, yields_s
from tonearm.core.failure import FailureCode, PlayFailure, Stage, own_error
from tonearm.core.frame import FRAME_S
from tonearm.core.memory_budget import FULL_MEMORY, LESS_AHEAD_FROM, TOO_FULL_MEMORY
from tonearm.decoder.message_coding import BrokenMessage, Message, MessageSplitter, parts_of
from tonearm.decoder.messages import (
    RENDER_SLOT,
    SHARED_SOURCE,
    Burst,
    CloseSession,
    Data,
    DataFailed,
    Decoded,
    DropSource,
    Encoded,
    Failed,
    FirstAudio,
    Flush,
    FoundPicture,
    FromNode,
    Grant,
    Heard,
    NoRoom,
    Opened,
    OpenSession,
    OpenSource,
    Ping,
    Plan,
    Pong,
    ReadRequest,
    Ready,
    SeekRefused,
    SeekSource,
    SessionFailed,
    TitleAt,
    Titled,
)
from tonearm.sandbox.report import SandboxReport
from tonearm.worker.memory import MemoryBudget, freed_memory
from tonearm.worker.packets.mp3 import Mp3Thread
from tonearm.worker.packets.opus_encoder import opus_problem
from tonearm.worker.reading.errors import OwnErrors
from tonearm.worker.reading.reader import LOST, DescriptorQueue
from tonearm.worker.render_order import RenderOrder, Turn
from tonearm.worker.rendering.block_packets import FIRST_BLOCK_FRAMES
from tonearm.worker.rendering.render_session import RenderSession
from tonearm.worker.rendering.session_sources import SessionSource
from tonearm.worker.sources.cursor import CANNOT_SEEK_LIVE, Cursor, CursorReport, Use
from tonearm.worker.sources.live_source import LiveMember, LiveSource
from tonearm.worker.sources.scheduler import DecodeScheduler, DecodeThreads
from tonearm.worker.sources.source import OUT_OF_MEMORY, DecodingSource, SourceServices
from tonearm.worker.suspects import MEMORY_ERRORS, SuspectNotes

# A chunk of data and some grants. For a larger buffer libc would map memory anew at each read.
RECEIVE_BYTES: Final = 96 * 1024
_MEMORY_NOTED_BYTES: Final = 64 * 1024  # after this many received bytes, the process notes its memory
_ROUND_S: Final = 0.1  # the longest round; then decoding resumes for sources whose PCM was rendered
_MOST_PARTS: Final = 1024  # IOV_MAX of Linux

_TOO_MANY_FILES: Final = PlayFailure(
    FailureCode.LIMIT_EXCEEDED,
    Stage.READ,
    "A decoder process has reached the system's limit of open files.",
    "Raise the limit of open files for the node (ulimit -n), or decoder.processes.",
)


class _PcmDecoded(NamedTuple):
    """A source of this session has new PCM, for which the session waits."""

    session: int


class _SourceArrived(NamedTuple):
    """A source to open, and the descriptor that came with the order."""

    session: int
    order: OpenSource
    descriptor: int | None


class _NotDelivered(NamedTuple):
    """A message for a source of this session raised `error` in the thread that reads the socket."""

    session: int
    error: Exception


class _NodeGone(NamedTuple):
    """The node sends nothing more. `error` is None when it closed its end."""

    error: BaseException | None


_Item: TypeAlias = Message | _PcmDecoded | _SourceArrived | _NotDelivered

_T = TypeVar("_T")
_R = TypeVar("_R")


class _Served:
    """A session, and its sources by the node's numbers."""

    def __init__(self, order: OpenSession, now_s: float) -> None:
        self.sources: dict[int, SessionSource] = {}  # all sources whose PCM may be rendered
        self.session = RenderSession(order, self.sources)
        self.decoded: dict[int, DecodingSource | LiveMember] = {}  # sources that are open, or being opened
        self.dropped: set[int] = set()  # dropped sources whose PCM may be rendered again
        self.sent_at_s = now_s  # the time of the node's last report of sent frames
        self.claim = order.claim
        self.plays_on = order.plays_on
        self.yields_s = NEWEST_YIELDS_S


class Worker:
    """Serves the sessions of one process until the node closes the socket.

    Work is done in steps, each for one session. An exception in a step ends that session and no other (`_step`).

    `suspects` notes the current source for the node to read after a crash. `sandbox` is the report about the process's
    confinement. `opus_library` is the libopus to call; None stands for ours or the system's. `now_s` is a monotonic
    clock.
    """

    def __init__(
        self,
        node: socket.socket,
        suspects: SuspectNotes,
        sandbox: SandboxReport,
        *,
        opus_library: Path | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._sandbox = sandbox
        self._opus_library = opus_library
        self._now_s = now_s
        self._inbox: queue.SimpleQueue[_Item | _NodeGone] = queue.SimpleQueue()
        self._suspects = suspects
        self._memory = MemoryBudget(suspects.memory_limit_bytes)
        self._errors = OwnErrors()
        decoding = DecodeScheduler(range(1), self._suspects.note)
        self._source_services = SourceServices(
            decoding=decoding,
            opening=DecodeScheduler(range(1, RENDER_SLOT), self._suspects.note, before=decoding),
            threads=DecodeThreads(self._suspects.ends_without_memory),
            report=self._inbox.put,
            pcm_decoded=self._pcm_decoded,
            note=self._suspects.note,
            errors=self._errors,
            memory=self._memory,
        )
        self._served: dict[int, _Served] = {}  # by session
        # By session and the source's number when it was opened, for received bytes.
        self._receivers: dict[tuple[int, int], DecodingSource] = {}
        # Sessions with granted frames whose samples are not decoded yet. A decoding thread reads the set after it has
        # appended to a store; the rendering thread writes the set and then checks the stores once more. So at least one
        # of the two notices new PCM.
        self._waiting_for_pcm: set[int] = set()
        self._mp3 = Mp3Thread(self._inbox.put, self._errors.tell, self._suspects.ends_without_memory)
        self._order = RenderOrder(now_s)
        self._packed_runs_out_s = math.inf  # when the first session runs out of frames whose audio is packed
        self._outgoing: list[bytes | memoryview] = []
        # Since the last report:
        self._idle_s = 0.0
        self._made_frames = 0
        self._reported_s = self._now_s()

    def run(self) -> None:
        """Serves until the node has closed the socket or died. Raises errors of the thread that reads the socket. Ends
        the process when the memory is used up."""
        try:
            self._serve()
        except MEMORY_ERRORS as error:
            self._suspects.end_if_used_up(error)
            raise

    def _serve(self) -> None:
        threading.Thread(target=self._read_node, name="node-reader", daemon=True).start()
        self._source_services.threads.add(RENDER_SLOT)  # one thread for each slot of the schedulers
        self._send(Ready(self._sandbox, opus_problem(self._opus_library)))
        if not self._flush():
            return
        while self._serve_round():
            pass

    def _serve_round(self) -> bool:
        """Waits for a message or a block to render, and does the work that is due. False when the node is gone.

        It reads new messages after each block, since they may be more urgent than the other blocks.
        """
        touched: set[int] = set()
        item = self._next_item() if self._order else self._wait_for_item()
        ends_s = self._now_s() + _ROUND_S
        while True:
            if isinstance(item, _NodeGone):
                self._raise_error_of(item)
                return False
            if item is not None:
                session_id = self._step(getattr(item, "session", 0), self._handle, item, if_it_raises=0)
                served = self._served.get(session_id)
                if served is not None:
                    touched.add(session_id)
                    self._add_to_order(session_id, served)
            elif not self._order:
                break
            else:
                turn = self._order.take()
                touched.add(turn.session)
                if not self._step(turn.session, self._render_block, turn, if_it_raises=True):
                    return False
            if self._now_s() >= ends_s:
                break
            item = self._next_item()
        if not self._flush():
            return False
        # Only after rendering: decoding threads and the rendering thread would compete for the interpreter lock.
        resumed = [
            session_id
            for session_id in touched
            if self._step(session_id, self._update_sources, session_id, if_it_raises=False)
        ]
        for session_id in touched if resumed else ():
            self._step(session_id, self._fill_up, session_id, if_it_raises=None)
        if self._outgoing and not self._flush():  # sessions that ended meanwhile
            return False
        freed_memory.give_back()
        return True

    def _raise_error_of(self, gone: _NodeGone) -> None:
        if isinstance(gone.error, BrokenMessage):
            self._suspects.note_session(gone.error.session, 0)
        if gone.error is not None:
            raise gone.error

    def _step(self, session_id: int, work: Callable[[_T], _R], on: _T, *, if_it_raises: _R) -> _R:
        """Does a step of a session's work, with a note of it meanwhile. An exception ends the session, since its state
        may be inconsistent.

        When memory is used up the process ends instead, so that its sessions move to another process. An exception
        while the session is being ended ends the process, too, and counts against this session.
        """
        self._suspects.note_session(session_id, self._current_source(session_id))
        try:
            result = work(on)
        except Exception as error:
            if not session_id or (isinstance(error, MEMORY_ERRORS) and self._suspects.is_memory_used_up()):
                raise
            self._end_session(session_id, error)
            result = if_it_raises
        self._suspects.note_session(0, 0)
        return result

    def _end_session(self, session_id: int, error: Exception) -> None:
        self._errors.tell(f"it worked on session {session_id}, which ends", error)
        source = self._current_source(session_id)
        self._close_session(session_id)
        self._send(SessionFailed(session_id, source, own_error(error)))

    def _current_source(self, session_id: int) -> int:
        served = self._served.get(session_id)
        return 0 if served is None else served.session.current_source

    def _wait_for_item(self) -> "_Item | _NodeGone":
        since_s = self._now_s()
        item = self._inbox.get()
        self._idle_s += self._now_s() - since_s
        return item

    def _next_item(self) -> "_Item | _NodeGone | None":
        """The next message in the inbox, or None, without waiting."""
        return None if self._inbox.empty() else self._inbox.get_nowait()

    def _flush(self) -> bool:
        """Sends the packed messages. False when the node is gone."""
        try:
            for first in range(0, len(self._outgoing), _MOST_PARTS):
                # Audio goes to the system without joining, which would copy it once more.
                parts = self._outgoing[first : first + _MOST_PARTS]
                written = os.writev(self._node.fileno(), parts)
                if written < sum(map(len, parts)):
                    self._node.sendall(memoryview(b"".join(parts))[written:])
        except OSError:
            return False
        self._outgoing.clear()
        self._packed_runs_out_s = math.inf
        return True

    def _handle(self, item: _Item) -> int:
        """Applies `item`. Returns the session that may be able to render because of it, or 0."""
        match item:
            case OpenSession():
                self._open_session(item)
            case CloseSession():
                self._close_session(item.session)
            case Ping():
                self._send(self._sign_of_life(item.number))
            case _SourceArrived():
                self._open_source(item.order, item.descriptor)
            case _NotDelivered():
                raise item.error
            case ReadRequest() | Opened() | SeekRefused() | FirstAudio() | FoundPicture() | Titled() | Encoded():
                self._pass_on(item)
            case _:
                session_id: int = getattr(item, "session", 0)
                served = self._served.get(session_id)
                if served is not None:
                    self._instruct(served, item)
                    return session_id
        return 0

    def _instruct(self, served: _Served, item: _Item) -> None:
        session = served.session
        match item:
            case Grant():
                served.sent_at_s = self._now_s()
                session.grant(item, has_memory=self._memory.used <= LESS_AHEAD_FROM)
            case Plan():
                session.plan(item)
            case Flush():
                session.flush()
            case Burst():
                session.burst(item)
            case Heard(claim=claim):
                session.heard()
                served.claim = claim
                self._update_sources(item.session)  # at once: a round takes long while many sources are being opened
            case DropSource():
                self._drop_source(served, item)
            case SeekSource():
                self._seek_source(served, item)
            case Failed() | Decoded():
                self._take_last_report(served, item)
        for job in session.take_mp3_jobs():
            self._mp3.do(job)

    def _give_up_for_others(self, session_id: int, *, though_it_sounds: bool = False) -> bool:
        """Ends a session when the others use so much memory that none remains for it. A session that has rendered
        frames continues, unless `though_it_sounds`. True when the session was ended."""
        served = self._served.get(session_id)
        if served is None or (served.session.has_rendered and not though_it_sounds):
            return False
        # A session with listeners took the place of a session without, whose memory is not free yet.
        full = TOO_FULL_MEMORY if served.session.is_heard else FULL_MEMORY
        promised = self._memory.promised(plays_on=served.plays_on and not though_it_sounds)
        if len(self._served) == 1 or promised < full:
            return False
        if isinstance(served.decoded.get(SHARED_SOURCE), LiveSource):
            return False
        self._close_session(session_id)
        self._send(NoRoom(session_id))
        return True

    def _sign_of_life(self, number: int) -> Pong:
        decoding, opening = self._source_services.decoding, self._source_services.opening
        now_s, busy_s = self._now_s(), max(decoding.busy_s(), opening.busy_s())
        seconds = now_s - self._reported_s
        decoding_s, late_s = decoding.take_work_s()
        opening_s, _ = opening.take_work_s()
        sound_s = min(seconds, max(decoding_s, seconds - self._idle_s))
        worked_s = min(seconds, sound_s + opening_s / (RENDER_SLOT - 1))
        made_s, late_s = self._made_frames * FRAME_S, max(late_s, self._order.take_late_s())
        self._reported_s, self._idle_s, self._made_frames = now_s, 0.0, 0
        self._order_by_claim()
        return Pong(number, busy_s, seconds, worked_s, sound_s, made_s, late_s, self._memory.count())

    def _order_by_claim(self) -> None:
        """Makes the sources of newer sessions yield to those of older sessions."""
        by_claim = sorted(self._served.values(), key=lambda served: served.claim)
        for place, served in enumerate(by_claim):
            served.yields_s = yields_s(place, len(by_claim))

    def _send(self, message: Message) -> None:
        self._outgoing += parts_of(message)

    def _pass_on(self, report: CursorReport | Encoded) -> None:
        if isinstance(report, Opened) and not self._give_up_for_others(report.session):
            self._memory.began()
        if report.session in self._served:  # after the session's end the node accepts nothing more for it
            self._send(report)

    def _open_session(self, order: OpenSession) -> None:
        if self._served and self._memory.is_nearly_used_up:
            self._send(NoRoom(order.session))
            return
        self._served[order.session] = _Served(order, self._now_s())
        self._waiting_for_pcm.add(order.session)

    def _close_session(self, session_id: int) -> None:
        served = self._served.pop(session_id, None)
        self._mp3.forget(session_id)
        self._waiting_for_pcm.discard(session_id)
        for source in () if served is None else served.decoded.values():
            source.drop()
            self._receivers.pop((session_id, source.opened_as), None)
        freed_memory.note_session()

    def _open_source(self, order: OpenSource, descriptor: int | None) -> None:
        if not order.is_shared:  # for a shared source, the sessions that join it are ended instead
            self._give_up_for_others(order.session)
        served = self._served.get(order.session)
        if served is None:
            if descriptor is not None and descriptor != LOST:
                os.close(descriptor)
            return
        if descriptor == LOST:
            self._send(Failed(order.session, order.source, _TOO_MANY_FILES, gave_audio=False))
            return
        if order.is_live and order.start_sample and not order.resumes:
            order = order.from_start()
            self._send(SeekRefused(order.session, order.source, CANNOT_SEEK_LIVE))
        session = served.session
        source = self._make_source(order, descriptor, is_beginning=not session.has_begun)
        served.decoded[order.source], served.sources[order.source] = source, source.cursor
        if isinstance(source, DecodingSource):
            # Before the source starts, so that the first bytes that it requests reach it.
            self._receivers[order.session, order.source] = source
        source.used(order.start_sample, Use(session.is_current(order.source), session.is_heard))
        source.start()

    def _make_source(
        self, order: OpenSource, descriptor: int | None, *, is_beginning: bool
    ) -> DecodingSource | LiveMember:
        if order.joins is not None:
            carrier = self._served.get(order.joins)
            live = None if carrier is None else carrier.decoded.get(SHARED_SOURCE)
            return LiveMember(order, live if isinstance(live, LiveSource) else None, self._source_services)
        if order.is_shared:
            return LiveSource(order, self._source_services)
        return DecodingSource(order, descriptor, self._source_services, is_beginning=is_beginning)

    def _drop_source(self, served: _Served, order: DropSource) -> None:
        source = served.decoded.pop(order.source, None)
        if source is not None:
            source.drop()
            self._receivers.pop((order.session, source.opened_as), None)
            served.dropped.add(order.source)

    def _seek_source(self, served: _Served, order: SeekSource) -> None:
        source = served.decoded.pop(order.source, None)
        if source is None:  # the source could not even be opened
            self._send(Failed(order.session, order.new_source, _TOO_MANY_FILES, gave_audio=False))
            return
        served.sources[order.source] = source.seek(order)
        served.decoded[order.new_source], served.sources[order.new_source] = source, source.cursor
        served.dropped.add(order.source)

    def _take_last_report(self, served: _Served, report: Failed | Decoded) -> None:
        is_out_of_memory = isinstance(report, Failed) and report.failure is OUT_OF_MEMORY
        if is_out_of_memory and self._give_up_for_others(report.session, though_it_sounds=True):
            return
        source = served.sources.get(report.source)
        if isinstance(source, Cursor):  # and no seek came meanwhile
            source.finish(report)
            if report.source not in served.dropped:
                self._send(report)

    def _render_block(self, turn: Turn) -> bool:
        """Renders the next block of a session and no further block. False when the node is gone."""
        session_id = turn.session
        served = self._served.get(session_id)
        if served is None:
            return True
        session = served.session
        self._waiting_for_pcm.discard(session_id)
        audio = session.render()
        if audio is None and session.has_frames_to_render:
            self._waiting_for_pcm.add(session_id)
            audio = session.render()
        if audio is not None:
            self._made_frames += audio.frames
            self._send(audio)
            self._packed_runs_out_s = min(self._packed_runs_out_s, turn.runs_out_s)
        if audio is not None and session.has_frames_to_render:
            self._add_to_order(session_id, served)
        else:
            for measured in session.take_measured():
                self._send(measured)
        # The blocks of other sessions may take long. But sending every block alone would cost more.
        is_urgent = self._packed_runs_out_s - self._now_s() < FIRST_BLOCK_FRAMES * FRAME_S
        return self._flush() if is_urgent and self._order else True

    def _add_to_order(self, session_id: int, served: _Served) -> None:
        session = served.session
        # A change that a listener waits for is rendered quickly; the beginning of a session is not.
        yields_s = 0.0 if session.is_changed and session.has_rendered else served.yields_s
        self._order.add(session_id, served.sent_at_s, session.frames_ahead, yields_s, is_heard=session.is_heard)

    def _update_sources(self, session_id: int) -> bool:
        """Reports to the sources how far they were rendered, and forgets dropped sources that are not needed any more.

        True when a source resumed decoding because of it.
        """
        served = self._served.get(session_id)
        if served is None:
            return False
        session, resumed = served.session, False
        for source_id, source in served.decoded.items():
            is_current, rate = session.is_current(source_id), session.position_rate
            use = Use(is_current, session.is_heard, rate, served.yields_s, session.reads_ahead)
            resumed |= source.used(session.used_up_to(source_id), use)
        for source_id in [source_id for source_id in served.dropped if not session.uses(source_id)]:
            served.dropped.discard(source_id)
            del served.sources[source_id]
        return resumed

    def _fill_up(self, session_id: int) -> None:
        """Resumes all sources with room for more PCM: decoding one right after the other uses the CPU's caches."""
        served = self._served.get(session_id)
        for source in () if served is None else served.decoded.values():
            source.fill_up()

    # In the threads that decode

    def _pcm_decoded(self, session_id: int) -> None:
        if session_id in self._waiting_for_pcm:
            self._inbox.put(_PcmDecoded(session_id))

    # In the thread that reads the socket

    def _read_node(self) -> None:
        error: BaseException | None = None
        try:
            self._receive_all()
        except OSError:
            pass  # the node is gone
        except BaseException as caught:  # noqa: BLE001 - raised again in the main thread
            self._suspects.end_if_used_up(caught)  # informing the main thread takes memory
            error = caught
        self._inbox.put(_NodeGone(error))

    def _receive_all(self) -> None:
        splitter = MessageSplitter(FromNode)
        descriptors = DescriptorQueue()
        unseen_bytes = 0
        while data := descriptors.receive(self._node, RECEIVE_BYTES):
            unseen_bytes += len(data)
            if unseen_bytes >= _MEMORY_NOTED_BYTES:
                unseen_bytes = 0
                self._suspects.note_memory()
            for message in splitter.feed(data):
                match message:
                    case Data() | DataFailed() | TitleAt():
                        self._deliver(message)
                    case OpenSource():
                        descriptor = descriptors.take() if message.has_descriptor else None
                        self._inbox.put(_SourceArrived(message.session, message, descriptor))
                    case _:
                        self._inbox.put(message)

    def _deliver(self, message: Data | DataFailed | TitleAt) -> None:
        source = self._receivers.get((message.session, message.source))
        try:
            if source is not None:
                source.deliver(message)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - raised again as a step of the session
            self._inbox.put(_NotDelivered(message.session, error))

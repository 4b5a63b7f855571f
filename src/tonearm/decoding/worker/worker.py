"""The decoder process: one thread reads the socket, one renders and writes, the others open and decode.

The threads share the inbox (a queue), the stores and readers of the sources (each with a lock), and the table in which
the reading thread looks up the source for received bytes (single operations on a dict). Everything else belongs to
the rendering thread.
"""

import os
import queue
import resource
import socket
import threading
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.decoding.message_coding import Message, MessageSplitter, parts_of
from tonearm.decoding.messages import (
    RENDER_SLOT,
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
    Grant,
    Opened,
    OpenSession,
    OpenSource,
    Ping,
    Plan,
    Pong,
    ReadRequest,
    Ready,
    SeekFailed,
    SeekSource,
    TitleAt,
    Titled,
)
from tonearm.decoding.worker.packets.mp3 import Mp3Thread
from tonearm.decoding.worker.reading.reader import LOST, DescriptorQueue
from tonearm.decoding.worker.rendering.block_packets import FIRST_BLOCK_FRAMES
from tonearm.decoding.worker.rendering.render_session import RenderSession
from tonearm.decoding.worker.rendering.session_sources import SessionSource
from tonearm.decoding.worker.sources.packet_store import freed_memory
from tonearm.decoding.worker.sources.scheduler import DecodeScheduler, DecodeThreads
from tonearm.decoding.worker.sources.source import DecodingSource
from tonearm.decoding.worker.suspects import SuspectNotes
from tonearm.sandbox.report import SandboxReport

# A chunk of data and some grants. With more, libc maps memory anew for each read, which costs 12 µs more.
RECEIVE_BYTES: Final = 96 * 1024
_ROUND_STEPS: Final = 1000  # messages and blocks, before sources that wait for room are decoded on
_MOST_PARTS: Final = 1024  # IOV_MAX of Linux

_TOO_MANY_FILES: Final = PlayFailure(
    FailureCode.LIMIT_EXCEEDED,
    Stage.READ,
    "A decoder process has as many files open as the system lets it have.",
    "Raise the limit of open files for the node (ulimit -n), or decoder.processes.",
)


class RenderOrder:
    """The sessions that may have something to render: the one whose frames run out first comes first.

    A session whose plan was changed has no frames ahead, so it need not wait for the blocks of others, which were
    granted on the same beat and have time.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, int]] = []  # frames ahead, number of the entry, session
        self._numbers = count()
        self._newest: dict[int, int] = {}  # by session: the number of its entry that counts

    def __bool__(self) -> bool:
        return bool(self._newest)

    def add(self, session: int, frames_ahead: int) -> None:
        """Has a session rendered, of which so many frames are ahead of what was sent. Only the last call counts."""
        number = self._newest[session] = next(self._numbers)
        heappush(self._entries, (frames_ahead, number, session))

    def take(self) -> int:
        """Takes the most urgent session out; of several the one that was added first. Raises IndexError when there is
        none."""
        while True:
            _, number, session = heappop(self._entries)
            if self._newest.get(session) == number:
                del self._newest[session]
                return session


class _PcmDecoded(NamedTuple):
    """A source of this session has new PCM, and the session waits for some."""

    session: int


class _SourceArrived(NamedTuple):
    """A source to open, and the descriptor that came with the order."""

    order: OpenSource
    descriptor: int | None


class _NodeGone(NamedTuple):
    """The node sends nothing more. `error` is None when it closed its end."""

    error: BaseException | None


_Item: TypeAlias = Message | _PcmDecoded | _SourceArrived | _NodeGone


class Worker:
    """Serves the sessions of one process until the node closes the socket.

    `note(slot, suspect)` writes down which source is worked on, where the node can read it after a crash. `sandbox` is
    what the process reported about its confinement.
    """

    def __init__(self, node: socket.socket, note: Callable[[int, int], None], sandbox: SandboxReport) -> None:
        self._node = node
        self._sandbox = sandbox
        self._inbox: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._suspects = SuspectNotes(note, resource.getrlimit(resource.RLIMIT_AS)[0])
        self._decoding = DecodeScheduler(range(1), self._suspects.note)
        self._opening = DecodeScheduler(range(1, RENDER_SLOT), self._suspects.note)
        self._threads = DecodeThreads()
        self._sessions: dict[int, RenderSession] = {}
        self._sources: dict[int, dict[int, SessionSource]] = {}  # by session: all whose PCM may be rendered
        self._decoded: dict[int, dict[int, DecodingSource]] = {}  # by session: those that are open, or being opened
        self._dropped: dict[int, set[int]] = {}  # by session: dropped sources whose PCM may be rendered again
        # By session and the number with which the source was opened, for received bytes.
        self._receivers: dict[tuple[int, int], DecodingSource] = {}
        # Sessions with granted frames whose samples are not decoded yet. A decoding thread reads it after it has
        # appended to a store; the rendering thread writes it and then looks at the stores once more. So at least one
        # of the two notices new PCM.
        self._waiting_for_pcm: set[int] = set()
        self._mp3 = Mp3Thread(self._inbox.put)
        self._order = RenderOrder()
        self._outgoing: list[bytes | memoryview] = []

    def run(self) -> None:
        """Returns when the node has closed the socket or died. Raises errors of the thread that reads the socket.

        After a `MemoryError` only the source that used the memory up is left as a suspect, if there is one.
        """
        try:
            self._serve()
        except MemoryError:
            self._suspects.memory_used_up()
            raise

    def _serve(self) -> None:
        threading.Thread(target=self._read_node, name="node-reader", daemon=True).start()
        self._threads.add(RENDER_SLOT)  # one for each slot of the schedulers
        self._send(Ready(self._sandbox))
        if not self._flush():
            return
        while self._serve_round():
            pass

    def _serve_round(self) -> bool:
        """Waits for something to do, and does it and what comes meanwhile. False when the node is gone.

        What comes is looked at after each block, since it may be more urgent than the blocks that are left.
        """
        touched: set[int] = set()
        item = self._next_item() if self._order else self._inbox.get()
        for _ in range(_ROUND_STEPS):
            if isinstance(item, _NodeGone):
                if item.error is not None:
                    raise item.error
                return False
            if item is not None:
                session_id = self._handle(item)
                session = self._sessions.get(session_id)
                if session is not None:
                    touched.add(session_id)
                    self._order.add(session_id, session.frames_ahead)
            elif not self._order:
                break
            elif not self._render_block(self._order.take()):
                return False
            item = self._next_item()
        if not self._flush():
            return False
        # Only now: threads that decode and the one that renders would take the interpreter lock from each other.
        resumed = [session_id for session_id in touched if self._update_sources(session_id)]
        if resumed:
            self._fill_up(touched)
        freed_memory.give_back()
        return True

    def _next_item(self) -> "_Item | None":
        """What has come, without waiting."""
        if self._inbox.empty():
            return None
        try:
            return self._inbox.get_nowait()
        except queue.Empty:
            return None

    def _flush(self) -> bool:
        """Sends the packed messages. False when the node is gone."""
        try:
            for first in range(0, len(self._outgoing), _MOST_PARTS):
                # Audio goes to the system from where it lies: joined first, it would be copied once more.
                parts = self._outgoing[first : first + _MOST_PARTS]
                written = os.writev(self._node.fileno(), parts)
                if written < sum(map(len, parts)):
                    self._node.sendall(memoryview(b"".join(parts))[written:])
        except OSError:
            return False
        self._outgoing.clear()
        return True

    def _handle(self, item: _Item) -> int:
        """Applies `item`. Returns the session that may be able to render because of it, or 0."""
        match item:
            case _PcmDecoded():
                return item.session
            case Grant() | Plan() | Flush():
                return self._instruct(item)
            case Failed() | Decoded():
                self._take_last_report(item)
                return item.session
            case DropSource():
                self._drop_source(item)
                return item.session
            case SeekSource():
                self._seek_source(item)
                return item.session
            case _SourceArrived():
                self._open_source(item.order, item.descriptor)
            case OpenSession():
                self._open_session(item)
            case CloseSession():
                self._close_session(item.session)
            case Ping():
                self._send(Pong(item.number, max(self._decoding.busy_s(), self._opening.busy_s())))
            case ReadRequest() | Opened() | SeekFailed() | FirstAudio() | FoundPicture() | Titled() | Encoded():
                self._send(item)
        return 0

    def _send(self, message: Message) -> None:
        self._outgoing += parts_of(message)

    def _open_session(self, order: OpenSession) -> None:
        sources: dict[int, SessionSource] = {}
        self._sources[order.session] = sources
        self._decoded[order.session] = {}
        self._sessions[order.session] = RenderSession(order, sources)
        self._dropped[order.session] = set()
        self._waiting_for_pcm.add(order.session)

    def _close_session(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)
        self._dropped.pop(session_id, None)
        self._mp3.forget(session_id)
        self._waiting_for_pcm.discard(session_id)
        self._sources.pop(session_id, None)
        for source in self._decoded.pop(session_id, {}).values():
            source.drop()
            self._receivers.pop((session_id, source.opened_as), None)

    def _open_source(self, order: OpenSource, descriptor: int | None) -> None:
        session = self._sessions.get(order.session)
        if session is None:
            if descriptor is not None and descriptor != LOST:
                os.close(descriptor)
            return
        if descriptor == LOST:
            self._send(Failed(order.session, order.source, _TOO_MANY_FILES, gave_audio=False))
            return
        source = DecodingSource(
            order,
            descriptor,
            decoding=self._decoding,
            opening=self._opening,
            threads=self._threads,
            report=self._inbox.put,
            pcm_decoded=self._pcm_decoded,
            note=self._suspects.note,
        )
        self._sources[order.session][order.source] = self._decoded[order.session][order.source] = source
        # Before it starts, so that the first bytes that it requests reach it.
        self._receivers[order.session, order.source] = source
        source.used(order.start_sample, is_current=session.is_current(order.source))
        source.start()

    def _drop_source(self, order: DropSource) -> None:
        source = self._decoded.get(order.session, {}).pop(order.source, None)
        if source is not None:
            source.drop()
            self._receivers.pop((order.session, source.opened_as), None)
            self._dropped[order.session].add(order.source)

    def _seek_source(self, order: SeekSource) -> None:
        if order.session not in self._sessions:
            return
        decoded = self._decoded[order.session]
        source = decoded.pop(order.source, None)
        if source is None:  # it could not even be opened
            self._send(Failed(order.session, order.new_source, _TOO_MANY_FILES, gave_audio=False))
            return
        sources = self._sources[order.session]
        sources[order.source] = source.seek(order)
        sources[order.new_source] = decoded[order.new_source] = source
        self._dropped[order.session].add(order.source)

    def _take_last_report(self, report: Failed | Decoded) -> None:
        source = self._sources.get(report.session, {}).get(report.source)
        if isinstance(source, DecodingSource):  # and was not sought meanwhile
            source.finish(report)
            if report.source not in self._dropped[report.session]:
                self._send(report)

    def _instruct(self, order: Grant | Plan | Flush) -> int:
        session = self._sessions.get(order.session)
        if session is None:
            return 0
        match order:
            case Grant():
                session.grant(order)
                for job in session.take_mp3_jobs():
                    self._mp3.do(job)
            case Plan():
                session.plan(order)
            case Flush():
                session.flush()
        return order.session

    def _render_block(self, session_id: int) -> bool:
        """Renders the next block of a session; more is left for later. False when the node is gone."""
        session = self._sessions.get(session_id)
        if session is None:
            return True
        self._waiting_for_pcm.discard(session_id)
        is_urgent = session.frames_ahead < FIRST_BLOCK_FRAMES
        rendered = session.render(1)
        if not rendered and session.has_frames_to_render:
            self._waiting_for_pcm.add(session_id)
            rendered = session.render(1)
        for audio in rendered:
            self._send(audio)
        if rendered and session.has_frames_to_render:
            self._order.add(session_id, session.frames_ahead)
        else:
            for measured in session.take_measured():
                self._send(measured)
        return self._flush() if rendered and is_urgent and self._order else True

    def _update_sources(self, session_id: int) -> bool:
        """Passes on to the sources how far they were rendered, and forgets dropped ones that are not needed any more.

        True when a source resumed decoding because of it.
        """
        session = self._sessions.get(session_id)
        if session is None:
            return False
        sources = self._sources[session_id]
        resumed = False
        for source_id, source in self._decoded[session_id].items():
            resumed |= source.used(
                session.used_up_to(source_id),
                is_current=session.is_current(source_id),
                rate=session.position_rate,
            )
        dropped = self._dropped[session_id]
        for source_id in [source_id for source_id in dropped if not session.uses(source_id)]:
            dropped.discard(source_id)
            del sources[source_id]
        return resumed

    def _fill_up(self, session_ids: set[int]) -> None:
        """Resumes all sources with room for more PCM: one after the other they find libav's code in the caches."""
        for session_id in session_ids:
            for source in self._decoded.get(session_id, {}).values():
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
            error = caught
        self._inbox.put(_NodeGone(error))

    def _receive_all(self) -> None:
        splitter = MessageSplitter()
        descriptors = DescriptorQueue()
        while data := descriptors.receive(self._node, RECEIVE_BYTES):
            for message in splitter.feed(data):
                match message:
                    case Data() | DataFailed() | TitleAt():
                        source = self._receivers.get((message.session, message.source))
                        if source is not None:
                            source.deliver(message)
                    case OpenSource():
                        self._inbox.put(_SourceArrived(message, descriptors.take() if message.has_descriptor else None))
                    case _:
                        self._inbox.put(message)

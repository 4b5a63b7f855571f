"""The decoder process: one thread reads the socket, one renders and writes, the others open and decode in turns.

What the threads share: the inbox (a queue), the stores and readers of the sources (locked), and the table by which
the reading thread finds a source for its bytes (single operations on a dict). All else belongs to the thread that
renders.
"""

import os
import queue
import socket
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.decoding.message_coding import Message, MessageSplitter, pack
from tonearm.decoding.messages import (
    SUSPECT_SLOTS,
    CloseSession,
    Data,
    DataFailed,
    Decoded,
    DropSource,
    Failed,
    Flush,
    Grant,
    Opened,
    OpenSession,
    OpenSource,
    Ping,
    Plan,
    Pong,
    ReadRequest,
    Ready,
    TitleAt,
    Titled,
)
from tonearm.decoding.worker.reader import LOST, DescriptorQueue
from tonearm.decoding.worker.render_session import RenderSession
from tonearm.decoding.worker.scheduler import DecodeScheduler, DecodeThreads
from tonearm.decoding.worker.source import DecodingSource

RECEIVE_BYTES: Final = 256 * 1024

_TOO_MANY_FILES: Final = PlayFailure(
    FailureCode.LIMIT_EXCEEDED,
    Stage.READ,
    "A decoder process has as many files open as the system lets it have.",
    "Raise the limit of open files for the node (ulimit -n), or decoder.processes.",
)


class _HasPcm(NamedTuple):
    """A source of this session has new PCM."""

    session: int


class _Arrived(NamedTuple):
    """A source to open, and the descriptor that came with it."""

    order: OpenSource
    descriptor: int | None


class _NodeGone(NamedTuple):
    """Nothing more comes from the node; `error` unless it closed its end."""

    error: BaseException | None


_Item: TypeAlias = Message | _HasPcm | _Arrived | _NodeGone


class Worker:
    """Serves the sessions of one process until the node closes the socket.

    `note(slot, suspect)` writes down which source is being worked on, where the node finds it after a crash.
    """

    def __init__(self, node: socket.socket, note: Callable[[int, int], None]) -> None:
        self._node = node
        self._inbox: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._turns = DecodeScheduler(range(1), note)
        self._openings = DecodeScheduler(range(1, SUSPECT_SLOTS), note)
        self._crew = DecodeThreads()
        self._sessions: dict[int, RenderSession] = {}
        self._sources: dict[int, dict[int, DecodingSource]] = {}
        self._dropped: dict[int, set[int]] = {}
        self._deliveries: dict[tuple[int, int], DecodingSource] = {}
        # Sessions with frames granted that could not be rendered. Read by the threads that decode, after they have
        # added to a store; written by the rendering thread, which looks once more after it. So one of both sees the
        # other.
        self._hungry: set[int] = set()
        self._outgoing: list[bytes] = []

    def run(self) -> None:
        """Returns when the node has closed the socket or is gone. Raises what goes wrong in reading from it."""
        threading.Thread(target=self._read_node, name="node-reader", daemon=True).start()
        self._crew.start(SUSPECT_SLOTS)
        self._send(Ready())
        if not self._flush():
            return
        while True:
            item = self._inbox.get()
            touched: set[int] = set()
            while True:
                if isinstance(item, _NodeGone):
                    if item.error is not None:
                        raise item.error
                    return
                touched.add(self._handle(item))
                try:
                    item = self._inbox.get_nowait()
                except queue.Empty:
                    break
            for session_id in touched:
                self._render(session_id)
            if not self._flush():
                return
            # Only now: sources that decode and a thread that renders would take the interpreter lock from each other.
            going_on = [session_id for session_id in touched if self._tell_sources(session_id)]
            if going_on:
                self._fill_up(touched)

    def _flush(self) -> bool:
        """Sends what is ready. False when the node is gone."""
        if self._outgoing:
            try:
                self._node.sendall(b"".join(self._outgoing))
            except OSError:
                return False
            self._outgoing.clear()
        return True

    def _handle(self, item: _Item) -> int:
        """Does what `item` says and returns the session that it may give something to render, or 0."""
        match item:
            case _HasPcm():
                return item.session
            case Grant() | Plan() | Flush():
                return self._instruct(item)
            case Failed() | Decoded():
                self._settle(item)
                return item.session
            case DropSource():
                self._drop(item)
                return item.session
            case _Arrived():
                self._open(item.order, item.descriptor)
            case OpenSession():
                self._begin(item)
            case CloseSession():
                self._close(item.session)
            case Ping():
                self._send(Pong(item.number, max(self._turns.busy_s(), self._openings.busy_s())))
            case ReadRequest() | Opened() | Titled():
                self._send(item)
        return 0

    def _send(self, message: Message) -> None:
        self._outgoing.append(pack(message))

    def _begin(self, order: OpenSession) -> None:
        sources: dict[int, DecodingSource] = {}
        self._sources[order.session] = sources
        self._sessions[order.session] = RenderSession(order, sources)
        self._dropped[order.session] = set()
        self._hungry.add(order.session)

    def _open(self, order: OpenSource, descriptor: int | None) -> None:
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
            self._turns,
            self._openings,
            self._crew,
            self._inbox.put,
            self._take_note_of_pcm,
        )
        self._sources[order.session][order.source] = source
        # Before it begins: the bytes that it asks for find it.
        self._deliveries[order.session, order.source] = source
        source.used(order.start_sample, is_follower=session.follows(order.source))
        source.start()

    def _drop(self, order: DropSource) -> None:
        source = self._sources.get(order.session, {}).get(order.source)
        if source is not None:
            source.drop()
            self._deliveries.pop((order.session, order.source), None)
            self._dropped[order.session].add(order.source)

    def _close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)
        self._dropped.pop(session_id, None)
        self._hungry.discard(session_id)
        for source_id, source in self._sources.pop(session_id, {}).items():
            source.drop()
            self._deliveries.pop((session_id, source_id), None)

    def _settle(self, report: Failed | Decoded) -> None:
        source = self._sources.get(report.session, {}).get(report.source)
        if source is not None:
            source.settle(report)
            if report.source not in self._dropped[report.session]:
                self._send(report)

    def _instruct(self, order: Grant | Plan | Flush) -> int:
        session = self._sessions.get(order.session)
        if session is None:
            return 0
        match order:
            case Grant():
                session.grant(order)
            case Plan():
                session.plan(order)
            case Flush():
                session.flush()
        return order.session

    def _render(self, session_id: int) -> None:
        session = self._sessions.get(session_id)
        if session is None:
            return
        self._hungry.discard(session_id)
        self._send_rendered(session)
        if session.is_hungry:
            self._hungry.add(session_id)
            self._send_rendered(session)

    def _send_rendered(self, session: RenderSession) -> None:
        for audio in session.render():
            self._send(audio)

    def _tell_sources(self, session_id: int) -> bool:
        """How far they were rendered; and lets go of those that were dropped and are not needed any more.

        True when one of them goes on decoding because of it.
        """
        session = self._sessions.get(session_id)
        if session is None:
            return False
        sources = self._sources[session_id]
        goes_on = False
        for source_id, source in sources.items():
            goes_on |= source.used(session.used_sample(source_id), is_follower=session.follows(source_id))
        dropped = self._dropped[session_id]
        for source_id in [source_id for source_id in dropped if not session.uses(source_id)]:
            dropped.discard(source_id)
            del sources[source_id]
        return goes_on

    def _fill_up(self, session_ids: set[int]) -> None:
        """Lets sources decode together: one after the other they find libav in the caches, each alone would not."""
        for session_id in session_ids:
            for source in self._sources.get(session_id, {}).values():
                source.fill_up()

    # The threads that decode

    def _take_note_of_pcm(self, session_id: int) -> None:
        if session_id in self._hungry:
            self._inbox.put(_HasPcm(session_id))

    # The thread that reads the socket

    def _read_node(self) -> None:
        error: BaseException | None = None
        try:
            self._take_in_all()
        except OSError:
            pass  # the node is gone
        except BaseException as caught:  # noqa: BLE001 - raised in the main thread
            error = caught
        self._inbox.put(_NodeGone(error))

    def _take_in_all(self) -> None:
        splitter = MessageSplitter()
        descriptors = DescriptorQueue()
        while data := descriptors.receive(self._node, RECEIVE_BYTES):
            for message in splitter.feed(data):
                match message:
                    case Data() | DataFailed() | TitleAt():
                        source = self._deliveries.get((message.session, message.source))
                        if source is not None:
                            source.deliver(message)
                    case OpenSource():
                        self._inbox.put(_Arrived(message, descriptors.take() if message.has_descriptor else None))
                    case _:
                        self._inbox.put(message)

"""The decoder process: one thread reads the socket, one renders and writes, one for each source decodes."""

import os
import queue
import socket
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

from tonearm.decoder.messages import (
    BrokenMessage,
    CloseSession,
    Data,
    DataFailed,
    DropSource,
    Flush,
    FromDecoder,
    FromNode,
    Grant,
    Message,
    MessageSplitter,
    OpenSession,
    OpenSource,
    Ping,
    Plan,
    Pong,
    Ready,
    pack,
)
from tonearm.decoder.session import Session
from tonearm.decoder.source_thread import SourceThread
from tonearm.decoder.turns import CULPRIT_SLOTS, OPENING_SLOTS, Turns

RECEIVE_BYTES: Final = 256 * 1024
DESCRIPTORS_A_READ: Final = 16

_Wake: TypeAlias = int  # a session that has new PCM


class Worker:
    """Serves the sessions of one process until the node closes the socket.

    `note(slot, culprit)` writes down which source is being worked on, where the node finds it after a crash.
    """

    def __init__(self, node: socket.socket, note: Callable[[int, int], None]) -> None:
        self._node = node
        self._inbox: queue.SimpleQueue[FromNode | FromDecoder | _Wake | None] = queue.SimpleQueue()
        self._turns = Turns(range(1), note)
        self._openings = Turns(range(1, 1 + OPENING_SLOTS), note)
        assert 1 + OPENING_SLOTS == CULPRIT_SLOTS
        self._sessions: dict[int, Session] = {}
        self._sources: dict[int, dict[int, SourceThread]] = {}
        self._dropped: dict[int, set[int]] = {}
        self._descriptors: dict[tuple[int, int], int] = {}
        self._deliveries: dict[tuple[int, int], SourceThread] = {}

    def run(self) -> None:
        """Returns when the node has closed the socket or is gone."""
        threading.Thread(target=self._read_node, name="node-reader", daemon=True).start()
        outgoing: list[bytes] = [pack(Ready())]
        while True:
            if outgoing:
                try:
                    self._node.sendall(b"".join(outgoing))
                except OSError:
                    return
                outgoing.clear()
            item = self._inbox.get()
            touched: set[int] = set()
            while True:
                if item is None:
                    return
                self._handle(item, touched, outgoing)
                try:
                    item = self._inbox.get_nowait()
                except queue.Empty:
                    break
            for session_id in touched:
                self._render(session_id, outgoing)

    def _handle(self, item: FromNode | FromDecoder | _Wake, touched: set[int], outgoing: list[bytes]) -> None:
        if isinstance(item, int):
            touched.add(item)
            return
        match item:
            case Ping():
                busy_s = max(self._turns.busy_s(), self._openings.busy_s())
                outgoing.append(pack(Pong(item.number, busy_s)))
            case OpenSession():
                sources = self._sources.setdefault(item.session, {})
                self._sessions[item.session] = Session(item, sources)
                self._dropped[item.session] = set()
            case CloseSession():
                self._close(item.session)
            case OpenSource():
                self._open(item)
            case DropSource():
                self._drop(item)
            case Grant() | Plan() | Flush():
                session = self._sessions.get(item.session)
                if session is not None:
                    _instruct(session, item)
                    touched.add(item.session)
            case Data() | DataFailed():
                pass  # handed to the source by the reading thread
            case _:
                outgoing.append(pack(item))

    def _open(self, order: OpenSource) -> None:
        descriptor = self._descriptors.pop((order.session, order.source), None)
        if order.session not in self._sessions:
            if descriptor is not None:
                os.close(descriptor)
            return
        source = SourceThread(
            order, descriptor, self._turns, self._openings, self._inbox.put, self._inbox.put
        )
        self._sources[order.session][order.source] = source
        self._deliveries[order.session, order.source] = source
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
        for source_id, source in self._sources.pop(session_id, {}).items():
            source.drop()
            self._deliveries.pop((session_id, source_id), None)

    def _render(self, session_id: int, outgoing: list[bytes]) -> None:
        session = self._sessions.get(session_id)
        if session is None:
            return
        outgoing.extend(map(pack, session.render()))
        sources = self._sources[session_id]
        for source_id, source in sources.items():
            source.used(session.used_sample(source_id), session.follows(source_id))
        for source_id in [source_id for source_id in self._dropped[session_id] if not session.uses(source_id)]:
            self._dropped[session_id].discard(source_id)
            del sources[source_id]

    def _read_node(self) -> None:
        splitter = MessageSplitter()
        descriptors: list[int] = []
        try:
            while True:
                data, received, _, _ = socket.recv_fds(self._node, RECEIVE_BYTES, DESCRIPTORS_A_READ)
                descriptors.extend(received)
                if not data:
                    break
                for message in splitter.feed(data):
                    self._take_in(message, descriptors)
        except (OSError, BrokenMessage):
            pass
        self._inbox.put(None)

    def _take_in(self, message: Message, descriptors: list[int]) -> None:
        match message:
            case Data() | DataFailed():
                source = self._deliveries.get((message.session, message.source))
                if source is not None:
                    source.deliver(message)
                return
            case OpenSource(has_descriptor=True):
                self._descriptors[message.session, message.source] = descriptors.pop(0)
        self._inbox.put(message)


def _instruct(session: Session, order: Grant | Plan | Flush) -> None:
    match order:
        case Grant():
            session.grant(order)
        case Plan():
            session.plan(order)
        case Flush():
            session.flush()


"""One player's listeners: every frame is wrapped once for each kind of connection and written to all of them."""

import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from tonearm.audio.sinks import FrameSink, Framing
from tonearm.core.frame import FRAME_BYTES, FRAMES_PER_SECOND, SILENT_FRAME

RING_FRAMES: Final = FRAMES_PER_SECOND  # what is kept for a listener that is slow
TAKES_NOTHING_FRAMES: Final = 10 * FRAMES_PER_SECOND
CUT_AFTER_FRAMES: Final = FRAMES_PER_SECOND
CLOSE_TOO_SLOW: Final = 1013

# A binary message of up to 65535 bytes from a server: FIN and opcode 2, length 126, then the length in 16 bits
# (RFC 6455, 5.2).
_WEBSOCKET_HEADER: Final = b"\x82\x7e" + FRAME_BYTES.to_bytes(2, "big")
_CHUNK_HEADER: Final = f"{FRAME_BYTES:X}\r\n".encode("ascii")  # RFC 9112, 7.1

_UNFORESEEN: Final = "a listener's connection failed in an unforeseen way and is cut"

log = logging.getLogger(__name__)


def wrap(frame: bytes, framing: Framing) -> bytes:
    """The bytes that carry one frame of PCM on a connection."""
    match framing:
        case Framing.WEBSOCKET:
            return _WEBSOCKET_HEADER + frame
        case Framing.WAV_CHUNKED:
            return _CHUNK_HEADER + frame + b"\r\n"
        case Framing.RAW:
            return frame


class _Listener:
    """A connection and the frames that wait for it."""

    __slots__ = ("framing", "is_closing", "last_pending", "ring", "sink", "stalled_frames")

    def __init__(self, sink: FrameSink) -> None:
        self.sink = sink
        self.framing = sink.framing
        self.ring: deque[bytes] = deque()
        self.stalled_frames = 0
        self.last_pending = 0
        self.is_closing = False


class Broadcast:
    """Never waits for anybody: who is slow loses its own oldest frames."""

    def __init__(self, count_lost: Callable[[int], None]) -> None:
        self._listeners: dict[_Listener, None] = {}
        self._count_lost = count_lost

    def __len__(self) -> int:
        return len(self._listeners)

    @property
    def wants_silence(self) -> bool:
        return any(listener.sink.wants_silence for listener in self._listeners)

    def attach(self, sink: FrameSink) -> Callable[[], None]:
        """Adds a listener from the next frame on. Returns how to take it away."""
        listener = _Listener(sink)
        self._listeners[listener] = None
        return lambda: self._remove(listener)

    def send(self, frame: bytes) -> None:
        """Gives 3840 bytes of PCM to every listener."""
        framing: Framing | None = None
        message = b""
        for listener in tuple(self._listeners):
            if listener.framing is not framing:  # listeners of one kind mostly stand together
                framing = listener.framing
                message = wrap(frame, framing)
            self._give(listener, message)

    def send_silence(self) -> None:
        """Feeds the connections that must not run dry while the player sends nothing."""
        for listener in tuple(self._listeners):
            if listener.sink.wants_silence:
                self._give(listener, wrap(SILENT_FRAME, listener.sink.framing))

    def close(self, code: int, reason: str) -> None:
        listeners = tuple(self._listeners)
        self._listeners.clear()
        for listener in listeners:
            if not listener.is_closing:
                try:
                    listener.sink.close(code, reason)
                except Exception:
                    log.exception(_UNFORESEEN)
                    self._cut(listener)

    def _remove(self, listener: _Listener) -> None:
        self._listeners.pop(listener, None)

    def _give(self, listener: _Listener, message: bytes) -> None:
        if listener not in self._listeners:
            return  # it went while this frame was given to the others
        try:
            if listener.is_closing:
                self._count_to_the_cut(listener)
            elif listener.ring or listener.sink.pending_bytes():
                self._keep(listener, message)
            else:
                listener.sink.write(message)
        except Exception:
            log.exception(_UNFORESEEN)
            self._cut(listener)

    def _keep(self, listener: _Listener, message: bytes) -> None:
        """For a listener whose buffer is not empty, or that older frames still wait for."""
        sink, ring = listener.sink, listener.ring
        pending = sink.pending_bytes()
        ring.append(message)
        if not pending or pending < listener.last_pending:
            listener.stalled_frames = 0
        else:
            listener.stalled_frames += 1
        while ring and not sink.pending_bytes():
            sink.write(ring.popleft())
        listener.last_pending = sink.pending_bytes()
        if len(ring) > RING_FRAMES:
            ring.popleft()
            self._count_lost(1)
        if listener.stalled_frames >= TAKES_NOTHING_FRAMES:
            listener.is_closing = True
            listener.stalled_frames = 0
            ring.clear()
            sink.close(CLOSE_TOO_SLOW, "nothing was read for 10 seconds")

    def _cut(self, listener: _Listener) -> None:
        """A connection that raises where it must not is cut, and nobody else notices."""
        self._remove(listener)
        with contextlib.suppress(Exception):
            listener.sink.abort()

    def _count_to_the_cut(self, listener: _Listener) -> None:
        listener.stalled_frames += 1
        if listener.stalled_frames >= CUT_AFTER_FRAMES:
            self._remove(listener)
            listener.sink.abort()

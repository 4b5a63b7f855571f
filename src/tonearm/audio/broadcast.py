"""One player's listeners: each frame is framed once for each kind of connection and written to all of them.

Frames are kept as WebSocket messages, which most listeners get as they are. The broadcast never waits: a listener that
is slow loses its own oldest frames, and one that takes nothing is closed.
"""

import contextlib
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from tonearm.audio.sinks import FrameSink, Framing
from tonearm.core.frame import FRAME_BYTES, FRAMES_PER_SECOND, SILENT_FRAME

log = logging.getLogger(__name__)

# A binary message of up to 65535 bytes from a server: FIN and opcode 2, length 126, then the length in 16 bits
# (RFC 6455, 5.2).
_WEBSOCKET_HEADER: Final = b"\x82\x7e" + FRAME_BYTES.to_bytes(2, "big")
_CHUNK_HEADER: Final = f"{FRAME_BYTES:X}\r\n".encode("ascii")  # RFC 9112, 7.1


def websocket_messages(pcm: bytes | memoryview) -> list[bytes]:
    """Whole frames of PCM as one WebSocket message each."""
    view = memoryview(pcm)
    return [_WEBSOCKET_HEADER + view[start : start + FRAME_BYTES] for start in range(0, len(pcm), FRAME_BYTES)]


def in_framing(message: bytes, framing: Framing) -> bytes:
    """The frame of a WebSocket message in the framing of another kind of connection."""
    match framing:
        case Framing.WEBSOCKET:
            return message
        case Framing.WAV_CHUNKED:
            return b"".join((_CHUNK_HEADER, memoryview(message)[len(_WEBSOCKET_HEADER) :], b"\r\n"))
        case Framing.RAW:
            return message[len(_WEBSOCKET_HEADER) :]


SILENT_MESSAGE: Final = websocket_messages(SILENT_FRAME)[0]

RING_FRAMES: Final = FRAMES_PER_SECOND  # kept for a slow listener
CLOSE_AFTER_FRAMES: Final = 10 * FRAMES_PER_SECOND  # of which a listener has taken nothing
CUT_AFTER_FRAMES: Final = FRAMES_PER_SECOND  # that a close may take
CLOSE_TOO_SLOW: Final = 1013

_MOST_LISTENERS: Final = Framing.WEBSOCKET  # looking up an enum's member takes as long as a call

_UNFORESEEN: Final = "a listener's connection failed in an unforeseen way and is cut"


class _Listener:
    """A connection and the frames that wait for it. `keeps_up`: none wait, and it is neither closing nor gone."""

    __slots__ = ("framing", "has_left", "is_closing", "keeps_up", "last_pending", "ring", "sink", "stalled_frames")

    def __init__(self, sink: FrameSink) -> None:
        self.sink = sink
        self.framing = sink.framing
        self.ring: deque[bytes] = deque()
        self.stalled_frames = 0
        self.last_pending = 0
        self.keeps_up = True
        self.is_closing = False
        self.has_left = False


class Broadcast:
    """The listeners of one player. `count_lost` is called with the number of frames that a listener lost."""

    def __init__(self, count_lost: Callable[[int], None]) -> None:
        # Replaced and never changed, since listeners may come and go while a frame is sent.
        self._listeners: tuple[_Listener, ...] = ()
        self._count_lost = count_lost

    def __len__(self) -> int:
        return len(self._listeners)

    @property
    def wants_silence(self) -> bool:
        return any(listener.sink.wants_silence for listener in self._listeners)

    def attach(self, sink: FrameSink) -> Callable[[], None]:
        """Adds a listener from the next frame on. Returns a call that removes it."""
        listener = _Listener(sink)
        self._listeners = (*self._listeners, listener)
        return lambda: self._remove(listener)

    def send(self, message: bytes) -> None:
        """Gives a frame, as a WebSocket message, to every listener."""
        framing, framed = _MOST_LISTENERS, message
        for listener in self._listeners:
            if listener.framing is not framing:
                framing = listener.framing
                framed = in_framing(message, framing)
            self._give(listener, framed)

    def send_silence(self) -> None:
        """Sends a silent frame to the connections that need data while the player sends nothing."""
        for listener in self._listeners:
            if listener.sink.wants_silence:
                self._give(listener, in_framing(SILENT_MESSAGE, listener.framing))

    def close(self, code: int, reason: str) -> None:
        """Removes all listeners and closes their connections."""
        listeners, self._listeners = self._listeners, ()
        for listener in listeners:
            listener.has_left, listener.keeps_up = True, False
        for listener in listeners:
            if not listener.is_closing:
                try:
                    listener.sink.close(code, reason)
                except Exception:
                    log.exception(_UNFORESEEN)
                    self._cut(listener)

    def _remove(self, listener: _Listener) -> None:
        listener.has_left, listener.keeps_up = True, False
        self._listeners = tuple(other for other in self._listeners if other is not listener)

    def _give(self, listener: _Listener, message: bytes) -> None:
        try:
            if listener.keeps_up and listener.sink.offer(message):
                return
            if listener.has_left:
                return  # in the course of this very frame
            if listener.is_closing:
                self._wait_for_close(listener)
            else:
                self._keep(listener, message)
        except Exception:
            log.exception(_UNFORESEEN)
            self._cut(listener)

    def _keep(self, listener: _Listener, message: bytes) -> None:
        """Puts the frame in the ring of a slow listener, then writes as many frames as its connection takes."""
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
        if listener.stalled_frames >= CLOSE_AFTER_FRAMES:
            listener.is_closing = True
            listener.stalled_frames = 0
            ring.clear()
            sink.close(CLOSE_TOO_SLOW, "nothing was read for 10 seconds")
        listener.keeps_up = not (ring or listener.is_closing or listener.has_left)

    def _cut(self, listener: _Listener) -> None:
        """Removes a listener whose connection raised an error, without an effect on the others."""
        self._remove(listener)
        with contextlib.suppress(Exception):
            listener.sink.abort()

    def _wait_for_close(self, listener: _Listener) -> None:
        """Called for each frame while a close is under way: a connection that does not close in time is cut."""
        listener.stalled_frames += 1
        if listener.stalled_frames >= CUT_AFTER_FRAMES:
            self._remove(listener)
            listener.sink.abort()

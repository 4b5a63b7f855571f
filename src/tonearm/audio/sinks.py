"""The connections of listeners and event clients, as the player sees them. The server implements them."""

from enum import Enum
from typing import Protocol


class Framing(Enum):
    """How a frame's PCM is wrapped for a kind of connection."""

    WEBSOCKET = "websocket"  # one unmasked binary server message
    WAV_CHUNKED = "wav_chunked"  # one chunk of an HTTP/1.1 chunked body
    RAW = "raw"  # the PCM itself


class FrameSink(Protocol):
    """One listener's connection. No method blocks, awaits or raises."""

    @property
    def framing(self) -> Framing: ...

    @property
    def wants_silence(self) -> bool:
        """True for a connection that must be fed while the player sends nothing (HTTP streams)."""
        ...

    def write(self, message: bytes) -> None: ...

    def offer(self, message: bytes) -> bool:
        """Writes the message and returns True, unless earlier bytes have not been handed to the kernel yet."""
        ...

    def pending_bytes(self) -> int:
        """How many bytes the transport could not hand to the kernel yet."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Starts an orderly close."""
        ...

    def abort(self) -> None:
        """Cuts the connection."""
        ...


class EventSink(Protocol):
    """One event client's connection. No method blocks, awaits or raises."""

    def send(self, text: str) -> None: ...

    def pending_bytes(self) -> int:
        """How many bytes the transport could not hand to the kernel yet."""
        ...

    def pending_messages(self) -> int:
        """How many messages of `send` the transport could not hand to the kernel yet."""
        ...

    def close(self, code: int, reason: str) -> None: ...

    def abort(self) -> None: ...

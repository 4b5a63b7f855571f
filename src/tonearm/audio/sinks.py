"""What the audio room knows of a listener's or an event client's connection. The edge implements these."""

from enum import Enum
from typing import Protocol


class Framing(Enum):
    """How a frame's PCM must be wrapped for a connection. The wrapping is done once for all connections of a kind."""

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
        """Writes the message and returns True, unless something else waits to be handed to the kernel."""
        ...

    def pending_bytes(self) -> int:
        """Bytes that the transport could not hand to the kernel yet."""
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

    def pending_messages(self) -> int:
        """Messages given to `send` that the transport could not hand to the kernel yet."""
        ...

    def close(self, code: int, reason: str) -> None: ...

    def abort(self) -> None: ...

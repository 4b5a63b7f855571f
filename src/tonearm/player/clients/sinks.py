"""The connections of listeners and event clients, as the player sees them. The server implements them."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from tonearm.core.events import EventMessage
from tonearm.core.frame import Output
from tonearm.core.metadata import Json
from tonearm.protocol.framing import CloseCode, Framing

log = logging.getLogger(__name__)


class FrameSink(Protocol):
    """One listener's connection. No method blocks, awaits or raises."""

    @property
    def output(self) -> Output:
        """The form in which the listener gets the audio. Like the other properties, it never changes."""

    @property
    def framing(self) -> Framing:
        """Makes the message from each payload and its stamp. Listeners with the same framing get the same bytes."""

    @property
    def wants_silence(self) -> bool:
        """Whether the connection gets silence while the player sends nothing, as HTTP streams do."""

    @property
    def burst_ms(self) -> int:
        """How much earlier audio the listener gets at once when it connects. Silence fills up what is missing."""

    @property
    def max_latency_ms(self) -> int:
        """How much audio, beyond the burst, is kept for the listener while its connection accepts nothing."""

    def write(self, message: bytes) -> None: ...

    def offer(self, message: bytes) -> bool:
        """Writes the message and returns True, unless the transport still has earlier bytes. Then it returns False."""

    def pending_bytes(self) -> int:
        """The number of bytes that the transport has not passed to the kernel yet."""

    def close(self, code: int, reason: str) -> None:
        """Starts an orderly close."""

    def abort(self) -> None:
        """Cuts the connection."""


class Companion(Protocol):
    """A part with the lifetime of its player, such as a voice connection. It may listen with a `FrameSink`, which is
    closed with the player. No method blocks, awaits or raises."""

    def record(self) -> Json:
        """The data that is saved with the player: enough to describe the companion, or to start it again."""

    def player_ended(self, code: CloseCode) -> None:
        """To be called when the player was deleted, or continues elsewhere (`MOVED`) with the data of `record`."""


class EventSink(Protocol):
    """One event client's connection. No method blocks, awaits or raises."""

    def send(self, message: EventMessage) -> None: ...

    def pending_bytes(self) -> int:
        """The number of bytes that the transport has not passed to the kernel yet."""

    def pending_messages(self) -> int:
        """The number of messages from `send` that the transport has not passed to the kernel yet."""

    def close(self, code: int, reason: str) -> None: ...

    def abort(self) -> None: ...


@contextlib.contextmanager
def cut_after_error(sink: EventSink, remove: Callable[[EventSink], None]) -> Iterator[None]:
    """Logs an error of the block, and cuts only this connection; `remove` removes it from its owner."""
    try:
        yield
    except Exception:
        log.exception("an event client's connection failed in an unforeseen way and is cut")
        remove(sink)
        with contextlib.suppress(Exception):
            sink.abort()

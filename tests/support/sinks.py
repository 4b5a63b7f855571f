"""Listeners and event clients that keep in memory what they are given."""

import json
from collections.abc import Callable
from typing import Any

from tests.support.eventually import Changes
from tests.support.wire_check import check_event
from tonearm.core.events import EventMessage
from tonearm.core.frame import PCM, Output
from tonearm.protocol.event_rendering import event_text
from tonearm.protocol.framing import HEADER_BYTES, FrameFlag, Framing


class MemoryListener:
    """A listener. `takes` says how many of the bytes in its buffer go out whenever the node looks; None: all."""

    def __init__(
        self,
        framing: Framing = Framing.RAW,
        *,
        wants_silence: bool = False,
        takes: int | None = None,
        output: Output = PCM,
        burst_ms: int = 0,
        max_latency_ms: int = 1000,
    ) -> None:
        self.framing = framing
        self.output = output
        self.burst_ms = burst_ms
        self.max_latency_ms = max_latency_ms
        self.wants_silence = wants_silence
        self.takes = takes
        self.messages: list[bytes] = []
        self.closed: list[tuple[int, str]] = []
        self.aborted = 0
        self.on_write: Callable[[], None] = lambda: None
        self._pending = 0
        self._changes = Changes()

    def write(self, message: bytes) -> None:
        assert not self.closed, "a frame after the close began"
        self.messages.append(message)
        if self.takes is not None:
            self._pending += len(message)
        self._changes.tell()
        self.on_write()

    def offer(self, message: bytes) -> bool:
        if self.pending_bytes():
            return False
        self.write(message)
        return True

    def pending_bytes(self) -> int:
        self._pending = 0 if self.takes is None else max(0, self._pending - self.takes)
        return self._pending

    def close(self, code: int, reason: str) -> None:
        self.closed.append((code, reason))
        self._changes.tell()

    def abort(self) -> None:
        self.aborted += 1

    @property
    def pcm(self) -> bytes:
        """Everything that was heard, for a raw listener."""
        return b"".join(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    async def wait_frames(self, count: int) -> bytes:
        """Waits until so many frames came; returns the PCM of exactly these."""
        await self.wait_for(lambda: len(self.messages) >= count, f"{count} frames")
        return b"".join(self.messages[:count])

    async def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        await self._changes.until(
            condition, lambda: f"{what}; {len(self)} frames came, and it was closed: {self.closed}"
        )


class PacketListener(MemoryListener):
    """An Opus listener that asked for headers: `messages` are packets, and `passed` says which are the source's own."""

    def __init__(self, output: Output) -> None:
        super().__init__(Framing.WEBSOCKET_WITH_HEADER, output=output)
        self.passed: list[bool] = []

    def write(self, message: bytes) -> None:
        head = 4 if message[1] == 126 else 2
        self.passed.append(bool(message[head + 1] & FrameFlag.PASSED))
        super().write(message[head + HEADER_BYTES :])


class MemoryEventClient:
    """An event client."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.closed: list[tuple[int, str]] = []
        self.pending = 0
        self.unsent_bytes = 0
        self.on_send: Callable[[], None] = lambda: None
        self._changes = Changes()

    def send(self, message: EventMessage) -> None:
        assert not self.closed, "an event after the close began"
        text = message.text(event_text)
        text.encode("utf-8")  # as a WebSocket would
        check_event(text)
        self.texts.append(text)
        self.events.append(json.loads(text))
        self._changes.tell()
        self.on_send()

    def pending_messages(self) -> int:
        return self.pending

    def pending_bytes(self) -> int:
        return self.unsent_bytes

    def close(self, code: int, reason: str) -> None:
        self.closed.append((code, reason))
        self._changes.tell()

    def abort(self) -> None: ...

    def named(self, op: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["op"] == op]

    @property
    def ops(self) -> list[str]:
        return [event["op"] for event in self.events]

    @property
    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.events]

    async def wait_for(self, op: str, count: int = 1, **fields: object) -> dict[str, Any]:
        """Waits until `count` events of this kind, with these fields, have come; returns the last of these."""

        def found() -> list[dict[str, Any]]:
            return [event for event in self.named(op) if all(event[name] == value for name, value in fields.items())]

        await self._changes.until(
            lambda: len(found()) >= count, lambda: f"{count} {op} with {fields}; what came is {self.ops}"
        )
        return found()[count - 1]


def break_off(*_: Any, **__: Any) -> None:
    raise BrokenPipeError("a fault in a connection")

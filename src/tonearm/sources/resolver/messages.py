"""The messages between the node and a resolving process, over pipes: lines of JSON, each with optional bytes behind it.

The field `"bytes"` says how many bytes follow the line. The process answers the node's request. Before that it may ask
the node for something (`"ask"`), as often as it likes, one at a time, and the node replies.
"""

import json
import threading
from typing import Any, BinaryIO, Final, NamedTuple

from tonearm.core.metadata import JsonObject

LARGEST_LINE_BYTES: Final = 512 * 1024
LARGEST_BODY_BYTES: Final = 16 * 1024 * 1024
ASK: Final = "ask"
BYTES: Final = "bytes"
YOUTUBE_MUSIC_SEARCH: Final = "ytmsearch"  # as Lavalink's clients write it


class Message(NamedTuple):
    head: JsonObject
    body: bytes = b""

    def encoded(self) -> bytes:
        head = {**self.head, BYTES: len(self.body)} if self.body else self.head
        return json.dumps(head).encode() + b"\n" + self.body


class NodePipe:
    """The resolver process's end of the pipe."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests = requests
        self._answers = answers
        self._lock = threading.Lock()  # extractors may have threads

    def next(self) -> tuple[dict[str, Any], bytes] | None:
        """The next message of the node; None when it has closed the pipe."""
        line = self._requests.readline()
        if not line:
            return None
        head: dict[str, Any] = json.loads(line)
        return head, self._requests.read(head.pop(BYTES, 0))

    def send(self, head: JsonObject, body: bytes = b"") -> None:
        self._answers.write(Message(head, body).encoded())
        self._answers.flush()

    def ask(self, what: str, question: JsonObject, body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """The node's reply. Raises `EOFError` when the node has gone."""
        with self._lock:
            self.send({ASK: what, **question}, body)
            reply = self.next()
        if reply is None:
            raise EOFError("the node has gone")
        return reply

"""What the node and a decoder process say to each other.

Both ends speak over one stream socket. A message is a header (`<IBI`: bytes of the body, kind, session) and a body.
What is said often (audio, grants, wants, data) is packed by hand; what is said seldom is JSON. A descriptor travels
beside the first byte of its `OpenSource` message.

Frames are numbered for the life of a session. An epoch is one plan of what they hold: a new plan begins at a frame
that was not sent yet, and frames of older epochs from there on are void.
"""

from tonearm.decoder.messages.coding import BrokenMessage, Message, MessageSplitter, pack
from tonearm.decoder.messages.limits import (
    BODY_LIMIT_BYTES,
    CULPRIT_SLOTS,
    DATA_CHUNK_BYTES,
    EXIT_MEMORY_LIMIT,
    GRANT_FRAMES,
)
from tonearm.decoder.messages.orders import (
    CloseSession,
    Data,
    DataFailed,
    DropSource,
    Flush,
    FromNode,
    Grant,
    OpenSession,
    OpenSource,
    Ping,
    Plan,
    TitleAt,
)
from tonearm.decoder.messages.reports import (
    Audio,
    Decoded,
    Failed,
    FromDecoder,
    Mark,
    MarkKind,
    Opened,
    Pong,
    Ready,
    Titled,
    Want,
)

__all__ = [
    "BODY_LIMIT_BYTES",
    "CULPRIT_SLOTS",
    "DATA_CHUNK_BYTES",
    "EXIT_MEMORY_LIMIT",
    "GRANT_FRAMES",
    "Audio",
    "BrokenMessage",
    "CloseSession",
    "Data",
    "DataFailed",
    "Decoded",
    "DropSource",
    "Failed",
    "Flush",
    "FromDecoder",
    "FromNode",
    "Grant",
    "Mark",
    "MarkKind",
    "Message",
    "MessageSplitter",
    "OpenSession",
    "OpenSource",
    "Opened",
    "Ping",
    "Plan",
    "Pong",
    "Ready",
    "TitleAt",
    "Titled",
    "Want",
    "pack",
]

"""Frames as they leave: each is made into a WebSocket message once, and that is what most listeners get."""

from typing import Final

from tonearm.audio.sinks import Framing
from tonearm.core.frame import FRAME_BYTES, SILENT_FRAME

# A binary message of up to 65535 bytes from a server: FIN and opcode 2, length 126, then the length in 16 bits
# (RFC 6455, 5.2).
_WEBSOCKET_HEADER: Final = b"\x82\x7e" + FRAME_BYTES.to_bytes(2, "big")
_CHUNK_HEADER: Final = f"{FRAME_BYTES:X}\r\n".encode("ascii")  # RFC 9112, 7.1


def websocket_messages(pcm: bytes | memoryview) -> list[bytes]:
    """Whole frames of PCM as one WebSocket message each."""
    view = memoryview(pcm)
    return [_WEBSOCKET_HEADER + view[start : start + FRAME_BYTES] for start in range(0, len(pcm), FRAME_BYTES)]


def in_framing(message: bytes, framing: Framing) -> bytes:
    """What carries the frame of a WebSocket message on a connection of another kind."""
    match framing:
        case Framing.WEBSOCKET:
            return message
        case Framing.WAV_CHUNKED:
            return b"".join((_CHUNK_HEADER, memoryview(message)[len(_WEBSOCKET_HEADER) :], b"\r\n"))
        case Framing.RAW:
            return message[len(_WEBSOCKET_HEADER) :]


SILENT_MESSAGE: Final = websocket_messages(SILENT_FRAME)[0]

"""WebSocket frames as a server sends them: one frame a message, unmasked (RFC 6455, section 5.2)."""

from typing import Final

_FINAL_TEXT: Final = 0x81
_FINAL_CLOSE: Final = 0x88
_FINAL_PING: Final = 0x89
_FINAL_PONG: Final = 0x8A

_MAX_CONTROL_PAYLOAD: Final = 125
_CODE_BYTES: Final = 2


def text_frame(text: str) -> bytes:
    payload = text.encode("utf-8", "replace")
    size = len(payload)
    if size <= 125:
        return bytes((_FINAL_TEXT, size)) + payload
    if size < 1 << 16:
        return bytes((_FINAL_TEXT, 126)) + size.to_bytes(2) + payload
    return bytes((_FINAL_TEXT, 127)) + size.to_bytes(8) + payload


def ping_frame() -> bytes:
    return bytes((_FINAL_PING, 0))


def pong_frame(payload: bytes) -> bytes:
    """`payload` is the ping's, which a parser took only up to 125 bytes."""
    return bytes((_FINAL_PONG, len(payload))) + payload


def close_frame(code: int | None, reason: str = "") -> bytes:
    """`code` None makes the frame without a code. A reason too long for a control frame is cut at a character."""
    if code is None:
        return bytes((_FINAL_CLOSE, 0))
    cut = reason.encode("utf-8", "replace")[: _MAX_CONTROL_PAYLOAD - _CODE_BYTES].decode("utf-8", "ignore").encode()
    return bytes((_FINAL_CLOSE, _CODE_BYTES + len(cut))) + code.to_bytes(_CODE_BYTES) + cut

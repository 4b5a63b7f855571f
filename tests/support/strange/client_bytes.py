"""What strange clients send on a connection: requests to upgrade, and frames, well-formed or nearly."""

import random
from typing import Final, NamedTuple

from tests.support.http_client import WEBSOCKET_HEADERS

_SOCKETS: Final = tuple(f"/v0/players/steady/{path}" for path in ("ws", "events", "ws?format=opus", "ws?header=1"))
_TARGETS: Final = (
    *_SOCKETS,
    "/v0/events",
    "/v0/players/nobody/ws",
    "/v0/players/steady/ws?format=%ff",
    "/info",
    "*",
    "//",
)
_HEADS: Final = (
    *((name, value.encode() if isinstance(value, str) else value) for name, value in WEBSOCKET_HEADERS),
    *(("Host", value) for value in (b"localhost", b"evil.example", b"[::1", b"localhost:99999")),
    *(("Connection", value) for value in (b"close", b"keep-alive, Upgrade", b"")),
    *(("Upgrade", value) for value in (b"h2c", b"WEBSOCKET", b"websocket, websocket")),
    *(("Sec-WebSocket-Version", value) for value in (b"0", b"12", b"-1", b"\xff", b"9" * 100)),
    *(("Sec-WebSocket-Key", value) for value in (b"", b"AA==", b"\xff" * 24, b"x" * 9_000)),
    *(("Sec-WebSocket-Extensions", value) for value in (b"permessage-deflate", b"permessage-deflate; x=\xff")),
    *(("Sec-WebSocket-Protocol", value) for value in (b"", b"a, b", b"\x80")),
    *(("Content-Length", value) for value in (b"5", b"-1", b"0, 5", b"9" * 30)),
    *(("Transfer-Encoding", value) for value in (b"chunked", b"gzip", b"chunked, chunked")),
    *(("Origin", value) for value in (b"null", b"http://localhost", b"\x00")),
    *(("X", value) for value in (b"y" * 10_000, b"a\r b", b"a\n b")),
)
_SIZES: Final = (0, 1, 2, 125, 126, 127, 1000, 65_535, 65_536, 70_000)
_CLOSE_CODES: Final = (0, 1, 999, 1000, 1001, 1004, 1005, 1006, 1015, 2999, 3000, 4999, 5000, 65_535)


class Visit(NamedTuple):
    """The bytes that one client sends, piece by piece, and whether it waits for an answer to the first of them, and
    whether it resets the connection at its end."""

    pieces: tuple[bytes, ...]
    waits_for_upgrade: bool
    resets: bool


def visit(seed: int) -> Visit:
    """Visit `seed` of an endless row."""
    dice = random.Random(seed)
    frames = [_frames(dice) for _ in range(dice.randint(0, 6))]
    is_upgrade_strange = dice.random() < 0.3
    pieces = [_upgrade(dice, is_strange=is_upgrade_strange), *frames]
    if dice.random() < 0.2:
        pieces[-1] = _damaged(pieces[-1], dice)
    if dice.random() < 0.2:
        pieces[-1] = pieces[-1][: dice.randrange(len(pieces[-1]) + 1)]
    if dice.random() < 0.1:
        pieces = [b"".join(pieces)]
    return Visit(tuple(pieces), len(pieces) > 1 and not is_upgrade_strange, dice.random() < 0.5)


def _upgrade(dice: random.Random, *, is_strange: bool) -> bytes:
    headers = [("Host", b"localhost"), *_HEADS[: len(WEBSOCKET_HEADERS)]]
    line = b"GET %s HTTP/1.1" % dice.choice(_TARGETS[:5]).encode()
    if is_strange:
        method = dice.choice(("GET",) * 8 + ("POST", "get", "CONNECT", "\xff"))
        version = dice.choice(("1.1",) * 8 + ("1.0", "2", "x"))
        line = f"{method} {dice.choice(_TARGETS)} HTTP/{version}".encode("latin-1")
        for _ in range(dice.randint(0, 2)):
            name, value = dice.choice(_HEADS)
            if dice.random() < 0.7:
                headers = [header for header in headers if header[0] != name]
            headers.insert(dice.randrange(len(headers) + 1), (name, value))
        if dice.random() < 0.2:
            del headers[dice.randrange(len(headers))]
    ends = b"\r\n" if dice.random() < 0.95 else b"\n"
    request = ends.join([line, *(name.encode() + b": " + value for name, value in headers), b"", b""])
    return _damaged(request, dice) if is_strange and dice.random() < 0.2 else request


def _frames(dice: random.Random) -> bytes:
    """One frame, a message of fragments, or a flood."""
    kind = dice.randrange(9)
    some_bytes = dice.randbytes(dice.choice(_SIZES))
    if kind == 0:
        return _frame(dice, 0x89, dice.randbytes(dice.choice((0, 1, 125)))) * dice.choice((10, 1_000, 5_000))
    if kind == 1:
        opcodes = [dice.choice((0x1, 0x2)), *(dice.choice((0x0, 0x0, 0x1, 0x9)) for _ in range(dice.randint(1, 50)))]
        return b"".join(_frame(dice, one, dice.randbytes(dice.randrange(200))) for one in opcodes)
    if kind == 2:
        code = dice.choice(_CLOSE_CODES).to_bytes(2)[: dice.choice((0, 1, 2, 2, 2))]
        return _frame(dice, 0x88, code + dice.choice((b"", b"bye", b"\xff\xfe", b"x" * 200)))
    if kind == 3:
        return _frame(dice, dice.choice((0x81, 0x82)), dice.choice((b"\xff\xc0", b"{", some_bytes)))
    if kind == 4:
        return some_bytes
    opcode = dice.choice((0x1, 0x2, 0x8, 0x9, 0xA, dice.randrange(16)))
    first = (dice.random() < 0.8) << 7 | dice.choice((0,) * 20 + tuple(range(1, 8))) << 4 | opcode
    claimed = dice.choice((None,) * 20 + (0, 126, 2**16, 2**31, 2**63, 2**64 - 1))
    return _frame(dice, first, some_bytes, is_masked=dice.random() < 0.9, claimed=claimed)


def _frame(
    dice: random.Random, first: int, payload: bytes, *, is_masked: bool = True, claimed: int | None = None
) -> bytes:
    """A frame that begins with the byte `first`, and whose head tells the length `claimed`, if any, instead of that of
    `payload`."""
    length = len(payload) if claimed is None else claimed
    short, more = (
        (length, b"") if length < 126 else (126, length.to_bytes(2)) if length < 2**16 else (127, length.to_bytes(8))
    )
    mask = dice.randbytes(4) if is_masked else b""
    if is_masked:
        payload = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return bytes((first, is_masked << 7 | short)) + more + mask + payload


def _damaged(data: bytes, dice: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(dice.randint(1, 8) if data else 0):
        damaged[dice.randrange(len(damaged))] = dice.randrange(256)
    return bytes(damaged)

"""The slowest requests that a node takes, or has to refuse, one of each kind: the longest lists, the deepest metadata,
the largest records, the most fields. They need an idle player `p`, and a file `list.m3u` with `playlist(…)`."""

import base64
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.support.http_client import Headers
from tonearm.core.metadata import Json

TRACKS: Final = 9_000
MIB: Final = 1024 * 1024
PLAYLIST: Final = "list.m3u"
# Of each track of the long queue: together most of the bytes that may wait, and of the values that a record may have.
FAT_METADATA: Final[Json] = {"by": "someone", "tags": [[number, {}] for number in range(70)], "text": "x" * 500}


@dataclass(frozen=True)
class SlowRequest:
    """`body` makes it when it is wanted: some are long. `needs_sources`: a node without decoders cannot answer it.
    `is_long`: it takes a second or more."""

    name: str
    method: str
    target: str
    statuses: tuple[int, ...]
    body: Callable[[], bytes] | None = None
    headers: Headers = ()
    needs_sources: bool = False
    is_long: bool = False

    def as_bytes(self) -> bytes:
        """The connection is closed with the answer."""
        body = b"" if self.body is None else self.body()
        lines = [f"{self.method} {self.target} HTTP/1.1", "Host: localhost", "Connection: close"]
        lines += [f"{name}: {value!s}" for name, value in self.headers]
        lines += [] if self.body is None else [f"Content-Length: {len(body)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _json(value: object) -> Callable[[], bytes]:
    return lambda: json.dumps(value, separators=(",", ":")).encode()


def nested(levels: int, width: int) -> Json:
    """Arrays in each other, of which each also has `width` empty ones."""
    value: Json = []
    for _ in range(levels):
        value = [value, *([] for _ in range(width))]
    return value


def record(tracks: int, metadata: Json) -> bytes:
    """A player's record with these tracks, one of which is the current one."""
    ids = [f"t{number}" for number in range(tracks)]
    value = {
        "version": 1,
        "id": "fat",
        "savedAt": 1,
        "state": "idle",
        "paused": False,
        "clockStarted": False,
        "position": 0,
        "current": ids[0],
        "queue": ids[1:],
        "history": [],
        "loop": "none",
        "filters": {},
        "crossfade": {},
        "metadata": {},
        "tracks": [{"id": name, "uri": f"http://127.0.0.1:9/{name}.mp3", "metadata": metadata} for name in ids],
    }
    return json.dumps(value, separators=(",", ":")).encode()


def playlist(entries: int) -> str:
    return "#EXTM3U\n" + "".join(f"#EXTINF:{number},By - Song {number}\n{number}.mp3\n" for number in range(entries))


def encoded_emoji(text_bytes: int) -> str:
    """A track full of characters outside the basic plane, which take longest to decode."""
    text = b"\xed\xa0\xbd\xed\xb8\x80" * (text_bytes // 6)
    part = struct.pack(">H", len(text)) + text
    body = b"\x03" + part * 2 + bytes(8) + part + b"\0" + (b"\1" + part) * 3 + b"\0\4http" + part + bytes(8)
    return base64.b64encode(struct.pack(">I", 0x40000000 | len(body)) + body).decode()


def _long_sources(count: int, most_bytes: int) -> list[Json]:
    return [{"uri": f"http://127.0.0.1:9/{number}/".ljust(most_bytes // count - 12, "%")} for number in range(count)]


def _many_headers(name: str, value: str) -> Headers:
    return tuple((name, value) for _ in range(60))


def slow_requests() -> Iterator[SlowRequest]:
    """In order: what one leaves, the next ones find."""
    p, fat = "/v0/players/p", "/v0/players/fat"
    many_names = b'{"value":1,%s}' % b",".join(b'"x%d":1' % number for number in range(49_000))
    yield SlowRequest("31,000 fields of a query", "GET", f"{p}/queue?details=true{'&a' * 31_000}", (400,))
    fields = "".join(f"&x{number}=" + "%41" * 350 for number in range(45))
    yield SlowRequest(
        "50 long fields of a query", "GET", f"{p}/queue?offset=0&limit=1&wait=0&details=false{fields}", (200,)
    )
    yield SlowRequest("a path of 15,000 parts", "GET", "/%41" * 15_000, (404,))
    yield SlowRequest("240,000 accepted types", "GET", "/", (200,), headers=_many_headers("Accept", "a," * 4_000))
    yield SlowRequest(
        "240,000 known versions", "GET", f"{p}/artwork", (404,), headers=_many_headers("If-None-Match", "a," * 4_000)
    )
    yield SlowRequest("49,000 unknown names", "PATCH", f"{p}/metadata", (204,), lambda: many_names)
    yield SlowRequest("49,000 unknown filters", "PATCH", f"{p}/filters", (400,), lambda: many_names)
    yield SlowRequest("49,000 wrong gains", "PATCH", f"{p}/filters", (400,), _json({"eq": [1] * 49_000}))
    yield SlowRequest("deep metadata", "PATCH", f"{p}/metadata", (204,), _json({"value": nested(60, 350)}))
    yield SlowRequest("deep metadata again", "PATCH", f"{p}/metadata", (204,), _json({"value": {"a": nested(59, 350)}}))
    yield SlowRequest(
        "deep metadata, merged", "PATCH", f"{p}/metadata", (204,), _json({"value": {"b": None, "a": nested(59, 340)}})
    )
    yield SlowRequest(
        "too many values", "PATCH", f"{p}/metadata", (413,), lambda: b'{"value":[%s[]]}' % (b"[]," * 300_000)
    )
    yield SlowRequest("a long text", "PATCH", f"{p}/metadata", (400,), lambda: b'{"value":"%s"}' % (b'\\",' * 340_000))
    gains = [{"band": number % 15, "gain_db": number / 100} for number in range(1_000)]
    yield SlowRequest("1000 gains", "PATCH", f"{p}/filters", (204,), _json({"eq": gains}))
    yield SlowRequest(
        "1000 sources in one body", "POST", f"{p}/queue", (201,), _json({"tracks": _long_sources(1_000, 1_000_000)})
    )
    yield SlowRequest(
        "1000 wrong sources",
        "POST",
        f"{p}/queue",
        (400, 403),
        _json({"tracks": [*_long_sources(999, 990_000), {"uri": "x:"}]}),
    )
    fat_tracks = [{"uri": "a.mp3", "metadata": [[]] * 20} for _ in range(1_000)]
    yield SlowRequest("1000 sources with metadata", "POST", f"{p}/queue", (201,), _json({"tracks": fat_tracks}))
    yield SlowRequest("a sound of 10 MiB", "POST", "/v0/sounds", (400,), lambda: bytes(10 * MIB), needs_sources=True)
    yield SlowRequest(
        "100 overlays", "POST", f"{p}/overlays", (201, 429), _json({"overlays": _long_sources(100, 390_000)})
    )
    entries = [encoded_emoji(60)] * 1_000
    yield SlowRequest("1000 tracks to decode", "POST", "/v0/decodetracks", (200,), _json(entries))
    yield SlowRequest(
        "long tracks to decode",
        "POST",
        "/v0/decodetracks",
        (200,),
        _json([encoded_emoji(60_000)] * 1 + [encoded_emoji(6_000)] * 8),
    )
    text = "😀" * 16_000
    info = {"identifier": "http://a/" + "b" * 4_000, "title": text, "author": text, "artworkUrl": text}
    yield SlowRequest("a long track to encode", "POST", "/v0/encodetrack", (200,), _json({"info": info}))
    yield SlowRequest("a playlist", "POST", f"{p}/queue", (201, 429), _json({"uri": PLAYLIST}), needs_sources=True)
    yield SlowRequest(
        "a playlist that is listed", "GET", f"/v0/loadplaylist?identifier={PLAYLIST}", (200,), needs_sources=True
    )
    yield SlowRequest("a shuffle", "POST", f"{p}/queue/shuffle", (204,))
    yield SlowRequest("a record of 200,000 tracks", "PUT", f"{fat}/state", (429,), lambda: record(200_000, {}))
    many_fields = b"{%s}" % b",".join([b'"a":1'] * 500_000)
    yield SlowRequest("a record of 500,000 fields", "PUT", f"{fat}/state", (413,), lambda: many_fields)
    yield SlowRequest("a record of one long track", "PUT", f"{fat}/state", (413,), lambda: record(1, [[]] * 5_000_000))
    yield SlowRequest(
        "a record of too many values", "PUT", f"{fat}/state", (413,), lambda: record(TRACKS, [[]] * 1_100), is_long=True
    )
    yield SlowRequest(
        "a record of too many bytes", "PUT", f"{fat}/state", (429,), lambda: record(TRACKS, "x" * 3_400), is_long=True
    )
    yield SlowRequest(
        "a record that is wrong at its end",
        "PUT",
        f"{fat}/state",
        (400,),
        lambda: record(TRACKS, FAT_METADATA)[:-9],
        is_long=True,
    )
    yield SlowRequest(
        "a record of 9,000 fat tracks", "PUT", f"{fat}/state", (200, 201), lambda: record(TRACKS, FAT_METADATA)
    )
    yield SlowRequest(
        "the same again", "PUT", f"{fat}/state", (200, 201), lambda: record(TRACKS, FAT_METADATA), is_long=True
    )
    yield SlowRequest("a long queue", "GET", f"{fat}/queue", (200,))
    yield SlowRequest("a long queue with details", "GET", f"{fat}/queue?details=true", (200,))
    yield SlowRequest("a long record", "GET", f"{fat}/state", (200,))
    yield SlowRequest("one track more", "POST", f"{fat}/queue", (201,), _json({"uri": "a.mp3"}))
    yield SlowRequest("one track more in front", "POST", f"{fat}/queue", (201,), _json({"uri": "a.mp3", "index": 0}))
    yield SlowRequest("the last track moves", "PATCH", f"{fat}/queue/t{TRACKS - 1}", (204,), _json({"index": 0}))
    yield SlowRequest("a track that is not there", "DELETE", f"{fat}/queue/nobody", (404,))
    yield SlowRequest("a long shuffle", "POST", f"{fat}/queue/shuffle", (204,))
    yield SlowRequest("a skip to the last track", "POST", f"{fat}/skip", (204,), _json({"to": f"t{TRACKS - 2}"}))
    yield SlowRequest("all records", "GET", "/v0/state", (200,))
    yield SlowRequest("all players", "GET", "/v0/players", (200,))
    yield SlowRequest("all figures", "GET", "/v0/stats", (200,))
    yield SlowRequest("all figures for Prometheus", "GET", "/metrics", (200,))
    yield SlowRequest("the description", "GET", "/openapi.json", (200,))
    yield SlowRequest(
        "a long record takes the place of another",
        "PUT",
        f"{fat}/state",
        (200,),
        lambda: record(TRACKS, FAT_METADATA),
        is_long=True,
    )
    yield SlowRequest("a long queue is emptied", "DELETE", f"{fat}/queue", (204,))
    yield SlowRequest(
        "a long record comes back", "PUT", f"{fat}/state", (200,), lambda: record(TRACKS, FAT_METADATA), is_long=True
    )
    yield SlowRequest("a long player is deleted", "DELETE", fat, (204,))

"""The slowest requests that a node takes, or has to refuse, one of each kind: the longest lists, the deepest metadata,
the largest records, the most fields. They need an idle player `p`, and a file `list.m3u` with `playlist(…)`."""

import base64
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tonearm.core.metadata import Json, JsonObject

TRACKS: Final = 9_000
MIB: Final = 1024 * 1024
PLAYLIST: Final = "list.m3u"
# Of each track of the long queue: together most of the bytes that may wait, and of the values that a record may have.
FAT_METADATA: Final[Json] = {"by": "someone", "tags": [[number, {}] for number in range(70)], "text": "x" * 500}


@dataclass(frozen=True)
class Slow:
    """`line`: method and target. `body` makes it when it is wanted: some are long. `needs_sources`: a node without
    decoders cannot answer it. `is_long`: it takes a second or more."""

    name: str
    line: str
    statuses: tuple[int, ...]
    body: Callable[[], bytes] | None = None
    headers: str = ""
    needs_sources: bool = False
    is_long: bool = False

    def as_bytes(self) -> bytes:
        """The connection is closed with the answer."""
        body = b"" if self.body is None else self.body()
        length = "" if self.body is None else f"Content-Length: {len(body)}\r\n"
        head = f"{self.line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{self.headers}{length}\r\n"
        return head.encode() + body


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
    value: JsonObject = {"version": 1, "id": "fat", "savedAt": 1, "state": "idle", "paused": False, "position": 0}
    value |= {"clockStarted": False, "history": [], "loop": "none", "filters": {}, "crossfade": {}, "metadata": {}}
    value |= {"current": ids[0], "queue": [*ids[1:]]}
    value["tracks"] = [{"id": name, "uri": f"http://127.0.0.1:9/{name}.mp3", "metadata": metadata} for name in ids]
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


def slow_requests() -> Iterator[Slow]:
    """In order: what one leaves, the next ones find."""
    p, fat = "/v0/players/p", "/v0/players/fat"
    names = b'{"value":1,%s}' % b",".join(b'"x%d":1' % number for number in range(49_000))
    fields = "".join(f"&x{number}=" + "%41" * 350 for number in range(45))
    deep, deeper, merged = nested(60, 350), {"a": nested(59, 350)}, {"b": None, "a": nested(59, 340)}
    gains = [{"band": number % 15, "gain_db": number / 100} for number in range(1_000)]
    wrong = [*_long_sources(999, 990_000), {"uri": "x:"}]
    fat_tracks = [{"uri": "a.mp3", "metadata": [[]] * 20} for _ in range(1_000)]
    text = "😀" * 16_000
    info = {"identifier": "http://a/" + "b" * 4_000, "title": text, "author": text, "artworkUrl": text}
    tracks = [encoded_emoji(60)] * 1_000, [encoded_emoji(60_000), *[encoded_emoji(6_000)] * 8]

    def whole() -> bytes:
        return record(TRACKS, FAT_METADATA)

    yield from (
        Slow("31,000 fields of a query", f"GET {p}/queue?details=true{'&a' * 31_000}", (400,)),
        Slow("50 long fields of a query", f"GET {p}/queue?offset=0&limit=1&wait=0&details=false{fields}", (200,)),
        Slow("a path of 15,000 parts", f"GET {'/%41' * 15_000}", (404,)),
        Slow("240,000 accepted types", "GET /", (200,), headers=f"Accept: {'a,' * 4_000}\r\n" * 60),
        Slow("240,000 versions", f"GET {p}/artwork", (404,), headers=f"If-None-Match: {'a,' * 4_000}\r\n" * 60),
        Slow("49,000 unknown names", f"PATCH {p}/metadata", (204,), lambda: names),
        Slow("49,000 unknown filters", f"PATCH {p}/filters", (400,), lambda: names),
        Slow("49,000 wrong gains", f"PATCH {p}/filters", (400,), _json({"eq": [1] * 49_000})),
        Slow("deep metadata", f"PATCH {p}/metadata", (204,), _json({"value": deep})),
        Slow("deep metadata again", f"PATCH {p}/metadata", (204,), _json({"value": deeper})),
        Slow("deep metadata, merged", f"PATCH {p}/metadata", (204,), _json({"value": merged})),
        Slow("too many values", f"PATCH {p}/metadata", (413,), lambda: b'{"value":[%s[]]}' % (b"[]," * 300_000)),
        Slow("a long text", f"PATCH {p}/metadata", (400,), lambda: b'{"value":"%s"}' % (b'\\",' * 340_000)),
        Slow("1000 gains", f"PATCH {p}/filters", (204,), _json({"eq": gains})),
        Slow("1000 sources in one", f"POST {p}/queue", (201,), _json({"tracks": _long_sources(1_000, 1_000_000)})),
        Slow("1000 wrong sources", f"POST {p}/queue", (400, 403), _json({"tracks": wrong})),
        Slow("1000 sources with metadata", f"POST {p}/queue", (201,), _json({"tracks": fat_tracks})),
        Slow("a sound of 10 MiB", "POST /v0/sounds", (400,), lambda: bytes(10 * MIB), needs_sources=True),
        Slow("100 overlays", f"POST {p}/overlays", (201, 429), _json({"overlays": _long_sources(100, 390_000)})),
        Slow("1000 tracks to decode", "POST /v0/decodetracks", (200,), _json(tracks[0])),
        Slow("long tracks to decode", "POST /v0/decodetracks", (200,), _json(tracks[1])),
        Slow("a long track to encode", "POST /v0/encodetrack", (200,), _json({"info": info})),
        Slow("a playlist", f"POST {p}/queue", (201, 429), _json({"uri": PLAYLIST}), needs_sources=True),
        Slow("a listed playlist", f"GET /v0/loadplaylist?identifier={PLAYLIST}", (200,), needs_sources=True),
        Slow("a shuffle", f"POST {p}/queue/shuffle", (204,)),
        Slow("a record of 200,000 tracks", f"PUT {fat}/state", (429,), lambda: record(200_000, {})),
        Slow("a record of 500,000 fields", f"PUT {fat}/state", (413,), lambda: b"{%s}" % (b'"a":1,' * 500_000)[:-1]),
        Slow("a record of one long track", f"PUT {fat}/state", (413,), lambda: record(1, [[]] * 5_000_000)),
        Slow("a record of many values", f"PUT {fat}/state", (413,), lambda: record(TRACKS, [[]] * 1_100), is_long=True),
        Slow("a record of many bytes", f"PUT {fat}/state", (429,), lambda: record(TRACKS, "x" * 3_400), is_long=True),
        Slow("a record wrong at its end", f"PUT {fat}/state", (400,), lambda: whole()[:-9], is_long=True),
        Slow("a record of 9,000 fat tracks", f"PUT {fat}/state", (200, 201), whole),
        Slow("the same again", f"PUT {fat}/state", (200, 201), whole, is_long=True),
        Slow("a long queue", f"GET {fat}/queue", (200,)),
        Slow("a long queue with details", f"GET {fat}/queue?details=true", (200,)),
        Slow("a long record", f"GET {fat}/state", (200,)),
        Slow("one track more", f"POST {fat}/queue", (201,), _json({"uri": "a.mp3"})),
        Slow("one track more in front", f"POST {fat}/queue", (201,), _json({"uri": "a.mp3", "index": 0})),
        Slow("the last track moves", f"PATCH {fat}/queue/t{TRACKS - 1}", (204,), _json({"index": 0})),
        Slow("a track that is not there", f"DELETE {fat}/queue/nobody", (404,)),
        Slow("a long shuffle", f"POST {fat}/queue/shuffle", (204,)),
        Slow("a skip to the last track", f"POST {fat}/skip", (204,), _json({"to": f"t{TRACKS - 2}"})),
        Slow("all records", "GET /v0/state", (200,)),
        Slow("all players", "GET /v0/players", (200,)),
        Slow("all figures", "GET /v0/stats", (200,)),
        Slow("all figures for Prometheus", "GET /metrics", (200,)),
        Slow("the description", "GET /openapi.json", (200,)),
        Slow("a long queue is emptied", f"DELETE {fat}/queue", (204,)),
        Slow("a long player is deleted", f"DELETE {fat}", (204,)),
    )

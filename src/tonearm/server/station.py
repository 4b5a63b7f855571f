"""What an endless stream says of itself in its headers, as SHOUTcast and Icecast do: name, genre, page and bitrate."""

from dataclasses import dataclass
from typing import Final

from tonearm.core.json_value import Json, JsonObject
from tonearm.core.outputs import PCM_BITRATE_BPS, Output
from tonearm.core.printable import one_line

_MOST_CHARACTERS: Final = 200  # programs show one line, and take headers of a few KiB only


@dataclass(frozen=True, slots=True)
class Station:
    """What the streams of a node say of themselves, unless a player's metadata say otherwise. Empty fields are left
    out."""

    name: str = ""
    genre: str = ""
    url: str = ""


def icy_headers(station: Station, player_id: str, metadata: Json, output: Output) -> dict[str, str]:
    """The headers of a stream. An object `station` in the player's metadata goes before `station`. Without a name in
    either, `player_id` is the name, since VLC asks for titles only when there is a name."""
    texts = _own(metadata)
    bitrate_bps = PCM_BITRATE_BPS if output.format == "pcm" else output.bitrate_bps
    headers = {
        "icy-name": _clean(texts.get("name")) or _clean(station.name) or f"tonearm {player_id}",
        "icy-genre": _clean(texts.get("genre")) or _clean(station.genre),
        "icy-url": _clean(texts.get("url")) or _clean(station.url),
        "icy-br": str(bitrate_bps // 1000),
    }
    return {name: text for name, text in headers.items() if text}


def own_name(metadata: Json) -> str:
    """The name of the station in a player's metadata; empty without one."""
    return _clean(_own(metadata).get("name"))


def _own(metadata: Json) -> JsonObject:
    own = metadata.get("station") if isinstance(metadata, dict) else None
    return own if isinstance(own, dict) else {}


def _clean(text: Json) -> str:
    """A text made fit for a header: one line of valid UTF-8, "" for what is no text."""
    return one_line(text[: 2 * _MOST_CHARACTERS])[:_MOST_CHARACTERS].strip() if isinstance(text, str) else ""

"""What an endless stream says of itself in its head, as SHOUTcast and Icecast do: name, genre, page and bitrate."""

from dataclasses import dataclass
from typing import Final

from tonearm.core.json_value import Json, JsonObject
from tonearm.core.outputs import PCM_BITRATE_BPS, Output
from tonearm.core.printable import one_line

_MOST_CHARACTERS: Final = 200  # players show one line, and hold headers to a few KiB


@dataclass(frozen=True, slots=True)
class Station:
    """What the streams of a node say, where a player's metadata say nothing else. Empty: nothing is said."""

    name: str = ""
    genre: str = ""
    url: str = ""


def icy_headers(station: Station, player_id: str, metadata: Json, output: Output) -> dict[str, str]:
    """The headers of one stream. An object `station` in the player's metadata goes before `station`; where both say
    nothing, the name is made of `player_id`: VLC asks for titles only when there is a name."""
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
    """One line that can stand in a header, in UTF-8; "" for what is no text. Nothing in it ends the header, or is half
    a character."""
    return one_line(text[: 2 * _MOST_CHARACTERS])[:_MOST_CHARACTERS].strip() if isinstance(text, str) else ""

"""The defaults of audio streams, their SHOUTcast and Icecast headers, and the query parameters of audio paths that
override the defaults."""

from dataclasses import dataclass, field
from typing import Final

from tonearm.core.errors import BadRequest
from tonearm.core.frame import (
    HIGHEST_OPUS_BPS,
    LOWEST_OPUS_BPS,
    MP3_BITRATES_BPS,
    PCM,
    PCM_BITRATE_BPS,
    Output,
    OutputFormat,
    mp3_output,
)
from tonearm.core.metadata import Json, JsonObject
from tonearm.core.printable import one_line
from tonearm.server.routing import Target

_MOST_CHARACTERS: Final = 200  # programs show one line, and take headers of a few KiB only


@dataclass(frozen=True, slots=True)
class Station:
    """The station fields of a node's streams, which a player's metadata may override. Empty fields are left out."""

    name: str = ""
    genre: str = ""
    url: str = ""


def icy_headers(station: Station, player_id: str, metadata: Json, output: Output) -> dict[str, str]:
    """The headers of a stream. An object `station` in the player's metadata overrides `station`. Without a name in
    either, `player_id` is the name, since VLC asks for titles only if there is a name."""
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
    """A text made safe for a header: one line of valid UTF-8. Returns "" for a value that is not a text."""
    return one_line(text[: 2 * _MOST_CHARACTERS])[:_MOST_CHARACTERS].strip() if isinstance(text, str) else ""


DEFAULT_MAX_LATENCY_MS: Final = 1000
HIGHEST_MAX_LATENCY_MS: Final = 60_000
HIGHEST_BURST_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class AudioSettings:
    """The audio that listeners get without parameters. `burst_ms` is for Ogg and MP3 streams; WAV has no burst.
    `station` is for the headers of streams."""

    opus: Output = field(default_factory=lambda: Output("opus", passes_through=True))
    mp3_bitrate_bps: int = 128_000
    burst_ms: int = 2000
    station: Station = field(default_factory=Station)

    def output(self, target: Target, output_format: OutputFormat) -> Output:
        """The output with the parameters in `target`. Raises `BadRequest` for a bitrate that the format does not
        have."""
        bitrate_bps = read_whole_number(target, "bitrate", lowest=1, highest=10_000_000)
        match output_format:
            case "pcm":
                if bitrate_bps is not None:
                    raise BadRequest("PCM has no `bitrate`. Leave it out, or ask for Opus or MP3.")
                return PCM
            case "opus":
                if bitrate_bps is None:
                    return self.opus
                if not LOWEST_OPUS_BPS <= bitrate_bps <= HIGHEST_OPUS_BPS:
                    raise BadRequest(f"`bitrate` must be {LOWEST_OPUS_BPS} to {HIGHEST_OPUS_BPS} bit/s for Opus.")
                return self.opus._replace(bitrate_bps=bitrate_bps, passes_through=False)
            case "mp3":
                if bitrate_bps is not None and bitrate_bps not in MP3_BITRATES_BPS:
                    raise BadRequest(f"`bitrate` must be one of {', '.join(map(str, MP3_BITRATES_BPS))} for MP3.")
                return mp3_output(bitrate_bps or self.mp3_bitrate_bps)


def socket_format(target: Target) -> OutputFormat:
    """`?format=` of the audio socket. Raises `BadRequest`."""
    match target.parameter("format"):
        case None | "pcm":
            return "pcm"
        case "opus":
            return "opus"
        case _:
            raise BadRequest("`format` must be pcm or opus.")


def max_latency_ms(target: Target) -> int:
    """Raises `BadRequest`."""
    wanted_ms = read_whole_number(target, "maxLatencyMs", lowest=20, highest=HIGHEST_MAX_LATENCY_MS)
    return wanted_ms or DEFAULT_MAX_LATENCY_MS


def read_switch(target: Target, name: str) -> bool:
    """Whether the parameter `name` is 1; False for 0 and without it. Raises `BadRequest` for other values."""
    value = target.parameter(name)
    if value not in (None, "0", "1"):
        raise BadRequest(f"`{name}` must be 0 or 1.")
    return value == "1"


def read_whole_number(target: Target, name: str, *, lowest: int, highest: int) -> int | None:
    """None without the parameter. Raises `BadRequest` for anything but digits, and outside the limits."""
    value = target.parameter(name)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= 9 and lowest <= int(value) <= highest):
        raise BadRequest(f"`{name}` must be a whole number, {lowest} to {highest}.")
    return int(value)

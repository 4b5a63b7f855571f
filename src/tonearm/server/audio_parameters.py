"""The parameters in the query of an audio path."""

from dataclasses import dataclass, field
from typing import Final

from tonearm.core.errors import BadRequest
from tonearm.core.outputs import (
    HIGHEST_OPUS_BPS,
    LOWEST_OPUS_BPS,
    MP3_BITRATES_BPS,
    PCM,
    Output,
    OutputFormat,
    mp3_output,
)
from tonearm.server.routing import Target
from tonearm.server.station import Station

DEFAULT_MAX_LATENCY_MS: Final = 1000
HIGHEST_MAX_LATENCY_MS: Final = 60_000
HIGHEST_BURST_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class AudioSettings:
    """What listeners get without parameters. `burst_ms` is for Ogg and MP3 streams; WAV has no burst. `station` is what
    streams say of themselves in their headers."""

    opus: Output = field(default_factory=lambda: Output("opus", passes_through=True))
    mp3_bitrate_bps: int = 128_000
    burst_ms: int = 2000
    station: Station = field(default_factory=Station)

    def output(self, target: Target, output_format: OutputFormat) -> Output:
        """The output with the parameters in `target`. Raises `BadRequest` for a bitrate that the format does not
        have."""
        bitrate_bps = whole_number(target, "bitrate", lowest=1, highest=10_000_000)
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
    return whole_number(target, "maxLatencyMs", lowest=20, highest=HIGHEST_MAX_LATENCY_MS) or DEFAULT_MAX_LATENCY_MS


def switch(target: Target, name: str) -> bool:
    """Whether the parameter `name` is 1; False for 0 and without it. Raises `BadRequest` for other values."""
    value = target.parameter(name)
    if value not in (None, "0", "1"):
        raise BadRequest(f"`{name}` must be 0 or 1.")
    return value == "1"


def whole_number(target: Target, name: str, *, lowest: int, highest: int) -> int | None:
    """None without the parameter. Raises `BadRequest` for anything but digits, and outside the limits."""
    value = target.parameter(name)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and len(value) <= 9 and lowest <= int(value) <= highest):
        raise BadRequest(f"`{name}` must be a whole number, {lowest} to {highest}.")
    return int(value)

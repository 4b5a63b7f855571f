"""The operations for audio and events: endless streams and WebSockets. `asyncapi` describes the sockets' messages."""

from collections.abc import Mapping
from typing import Final

from tonearm.core.frame import HIGHEST_OPUS_BPS, LOWEST_OPUS_BPS, MP3_BITRATES_BPS
from tonearm.description.operation import Operation, Parameter, Reply, Subject, flag, switch, whole_number, words
from tonearm.description.players import PLAYER

_UPGRADED: Final = (Reply(101, "The socket is open. /asyncapi.json describes its messages."),)
_LATENCY: Final = whole_number(
    "maxLatencyMs", "The node's buffer for a slow listener, in ms; 1000 by default.", 20, 60_000, 200
)
_OPUS_BITRATE: Final = whole_number(
    "bitrate",
    "The Opus bitrate in bit/s. With it, the listener gets no packets of the source itself.",
    LOWEST_OPUS_BPS,
    HIGHEST_OPUS_BPS,
    96000,
)
_MP3_BITRATE: Final = Parameter(
    "bitrate", "The MP3 bitrate in bit/s.", {"type": "integer", "enum": list(MP3_BITRATES_BPS)}, 192_000
)
_BURST: Final = whole_number(
    "burst", "How much earlier audio is sent at once, in ms; `stream.burst_ms` by default, 0 for WAV.", 0, 10_000, 0
)
_ICY: Final = Parameter(
    "Icy-MetaData",
    "`1`: the stream contains titles, in a block after each `icy-metaint` bytes.",
    {"type": "string", "enum": ["0", "1"]},
    "1",
    "header",
)
_ICY_HEADERS: Final = {
    "icy-name": "The station's name: from the player's metadata, or `stream.name`, or `tonearm` and the player's id.",
    "icy-br": "The bitrate in kbit/s.",
    "Cache-Control": "`no-store`.",
}


def _stream(kind: str, media_type: str, text: str, *parameters: Parameter) -> Operation:
    return Operation(
        "GET",
        f"{PLAYER}/stream.{kind}",
        f"Listen to an endless {text} stream",
        (Reply(200, "An endless stream, with silence while nothing plays.", {media_type: None}, _ICY_HEADERS),),
        parameters=(*parameters, _BURST, _LATENCY, _ICY),
        codes=("limit_reached",),
        tag="Audio",
    )


LISTEN: Final = Operation(
    "GET",
    f"{PLAYER}/ws",
    "Listen over a WebSocket",
    _UPGRADED,
    "One binary message is one frame of 20 ms.",
    parameters=(
        Parameter(
            "format",
            "`pcm`: 3840 bytes, 48 kHz, stereo, signed 16 bits, little-endian. `opus`: one packet.",
            {"type": "string", "enum": ["pcm", "opus"], "default": "pcm"},
            "opus",
        ),
        switch("header", "`1`: each message begins with 16 bytes for frame number, flags and position."),
        _OPUS_BITRATE,
        _LATENCY,
    ),
    codes=("upgrade_required", "limit_reached"),
    tag="Audio",
)
STREAMS: Final[Mapping[str, Operation]] = {
    "wav": _stream("wav", "audio/wav", "WAV"),
    "ogg": _stream(
        "ogg",
        "audio/ogg",
        "Ogg Opus",
        _OPUS_BITRATE,
        switch("chained", "`1`: each title begins a new logical stream, for archives."),
    ),
    "mp3": _stream("mp3", "audio/mpeg", "MP3", _MP3_BITRATE),
}

FOLLOW_PLAYER: Final = Operation(
    "GET",
    f"{PLAYER}/events",
    "Follow a player",
    _UPGRADED,
    "One text message is one event.",
    parameters=(
        flag("snapshot", "The first message is a `PlayerState`; with `since` only if events are lost."),
        words(
            "since",
            "`<life>.<seq>` of the last event that the client got. The events after it follow.",
            "995fc5bc838de12a.17",
        ),
    ),
    codes=("upgrade_required",),
    tag="Events",
)
FOLLOW_PLAYERS: Final = Operation(
    "GET",
    "/v0/events",
    "Follow all players",
    _UPGRADED,
    "The events of all players on one socket. `PlayerCreate` and `EventsLost` are sent only here.",
    parameters=(flag("snapshot", "The first messages are a `PlayerState` for each player."),),
    codes=("upgrade_required",),
    tag="Events",
    subject=Subject.ALL_PLAYERS,
)

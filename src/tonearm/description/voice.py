"""The operations for a player's voice connection to a Discord channel."""

from typing import Final

from tonearm.core.metadata import JsonObject
from tonearm.description.operation import DONE, Operation, RequestBody, json_of, whole_number
from tonearm.description.players import PLAYER
from tonearm.protocol import replies, requests

_VOICE: Final = f"{PLAYER}/voice"
VOICE_CODES: Final = ("voice_disabled", "voice_taken", "endpoint_blocked", "limit_reached")
EXAMPLE: Final[JsonObject] = {
    "token": "66d29164ee8cd919",
    "endpoint": "us-east1.discord.media:443",
    "sessionId": "30f32c5d54ae86130fc4a215c7474263",
    "channelId": "41771983423143937",
    "guildId": "41771983423143936",
    "userId": "104694319306248192",
}

JOIN_VOICE: Final = Operation(
    "PUT",
    _VOICE,
    "Speak in a Discord voice channel",
    DONE,
    "The node answers at once and then connects. GET with `wait` and the event `VoiceState` report the result. The "
    "same values again change nothing. Other values move the player: the old connection sends until the new one can. "
    "Discord sends `endpoint` null when a voice server goes away; with it the connection ends.",
    body=RequestBody(
        requests.VoicePut,
        {"the values from the gateway": EXAMPLE, "with the channel's bitrate": {**EXAMPLE, "bitrate": 64000}},
    ),
    codes=VOICE_CODES,
    tag="Voice",
)
SHOW_VOICE: Final = Operation(
    "GET",
    _VOICE,
    "Show a player's voice connection",
    json_of(replies.Voice | replies.NoVoice, "The state of the voice connection; `none` without one."),
    parameters=(
        whole_number(
            "wait",
            "Waits until the state is not `connecting`, at most for this time in ms; 0 by default.",
            0,
            10_000,
            200,
        ),
    ),
    tag="Voice",
)
LEAVE_VOICE: Final = Operation(
    "DELETE",
    _VOICE,
    "Leave the voice channel",
    DONE,
    "The player continues. Without a voice connection this does nothing.",
    tag="Voice",
)

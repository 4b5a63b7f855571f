"""The operations for players, their queues, settings and overlays."""

from typing import Final

from tonearm.core.metadata import JsonObject
from tonearm.description.operation import (
    DONE,
    Operation,
    Parameter,
    Reply,
    RequestBody,
    Subject,
    flag,
    json_of,
    whole_number,
)
from tonearm.protocol import replies, requests
from tonearm.protocol.saved_state import SavedPlayer

PLAYER: Final = "/v0/players/{player_id}"
CLIP: Final = "welcome.opus"
_SOURCE_CODES: Final = ("source_blocked", "source_refused", "invalid_identifier", "limit_reached")
_PICTURES: Final = ("image/jpeg", "image/png", "image/webp", "image/gif")
_PART: Final[JsonObject] = {"uri": CLIP, "startMs": 1000, "endMs": 21000, "metadata": {"by": "ada"}}

_RECORD: Final[JsonObject] = {
    "version": 1,
    "id": "tour",
    "savedAt": 1795230391297,
    "state": "idle",
    "paused": False,
    "clockStarted": True,
    "position": 0,
    "current": None,
    "queue": [],
    "history": [],
    "loop": "none",
    "filters": {"volume": 0.5},
    "crossfade": {"durationMs": 0},
    "metadata": {"guild": 81},
    "tracks": [],
}

CREATE_PLAYER: Final = Operation(
    "POST",
    "/v0/players",
    "Create a player",
    json_of(replies.PlayerCreated, "The player plays, or waits for its first listener.", 201),
    "The player starts without a call of play. The node checks only the form of the URI and the policy at once. If the "
    "source cannot be played, the event `TrackException` reports it when the track's turn comes.",
    body=RequestBody(
        requests.NewPlayer,
        {
            "a file or a link": {"id": "tour", "uri": CLIP},
            "a part of a file, with settings": {
                "id": "talk",
                "track": _PART,
                "volume": 0.5,
                "loop": "queue",
                "filters": {"eq": [{"band": 1, "gain_db": 6}]},
                "metadata": {"guild": 81},
                "paused": True,
            },
            "without a track": {"id": "board", "idle": True},
        },
    ),
    codes=("player_exists", "voice_disabled", "voice_taken", "endpoint_blocked", *_SOURCE_CODES),
    tag="Players",
    subject=Subject.NEW_PLAYER,
)
LIST_PLAYERS: Final = Operation(
    "GET",
    "/v0/players",
    "List all players",
    json_of(list[replies.Player], "The whole state of each player."),
    tag="Players",
    subject=Subject.ALL_PLAYERS,
)
SHOW_PLAYER: Final = Operation(
    "GET",
    PLAYER,
    "Show a player",
    json_of(replies.Player, "The player's whole state."),
    tag="Players",
)
DELETE_PLAYER: Final = Operation(
    "DELETE",
    PLAYER,
    "Delete a player",
    DONE,
    "The node closes the player's sockets with 1000, and ends its streams.",
    tag="Players",
)
GET_RECORD: Final = Operation(
    "GET",
    f"{PLAYER}/state",
    "Get a player's record",
    json_of(SavedPlayer, "Everything needed to restore the player, at this node or another one."),
    tag="Players",
)
PUT_RECORD: Final = Operation(
    "PUT",
    f"{PLAYER}/state",
    "Restore a player from its record",
    (
        *json_of(replies.Player, "The player's whole state. It has replaced a player with this id."),
        *json_of(replies.Player, "The player's whole state. There was no player with this id.", 201),
    ),
    "The player gets the id in the path, not the id in the record, and a new life.",
    body=RequestBody(SavedPlayer, {"an idle one": _RECORD}),
    codes=("player_exists", "limit_reached"),
    tag="Players",
    subject=Subject.NEW_PLAYER,
)
SHOW_HISTORY: Final = Operation(
    "GET",
    f"{PLAYER}/history",
    "List the history",
    json_of(list[replies.PlayedTrack], "The tracks that ended, the newest first, at most 50."),
    tag="Players",
)
SHOW_ARTWORK: Final = Operation(
    "GET",
    f"{PLAYER}/artwork",
    "Get the picture inside the current file",
    (
        Reply(200, "The picture.", dict.fromkeys(_PICTURES), {"ETag": "The name of this picture."}),
        Reply(304, "The picture has the `ETag` of `If-None-Match`.", {}, {"ETag": "The name of this picture."}),
    ),
    parameters=(
        Parameter(
            "If-None-Match", "The `ETag` of a picture that the client has.", {"type": "string"}, '"none"', "header"
        ),
    ),
    codes=("no_artwork", "source_blocked", "source_refused", "limit_reached"),
    tag="Players",
)

PLAY: Final = Operation(
    "POST",
    f"{PLAYER}/play",
    "Resume, or play the last track again",
    DONE,
    tag="Control",
)
PAUSE: Final = Operation(
    "POST",
    f"{PLAYER}/pause",
    "Pause",
    DONE,
    tag="Control",
)
SEEK: Final = Operation(
    "PATCH",
    f"{PLAYER}/position",
    "Seek",
    DONE,
    "A position beyond the end ends the track. A seek waits while the track loads.",
    body=RequestBody(requests.PositionPatch, {"to 0:05": {"position": 5000}, "back by a second": {"offset": -1000}}),
    codes=("not_seekable",),
    tag="Control",
)
REPLACE_TRACK: Final = Operation(
    "PUT",
    f"{PLAYER}/track",
    "Play a track now",
    json_of(replies.TrackQueued, "The track plays in place of the current one.", 201),
    "The current track ends with `replaced`, and no loop repeats it. The queue and the pause stay.",
    body=RequestBody(requests.NewTrack, {"a file or a link": {"uri": CLIP}, "a part of it": _PART}),
    codes=_SOURCE_CODES,
    tag="Control",
)
STOP: Final = Operation(
    "DELETE",
    f"{PLAYER}/track",
    "Stop",
    DONE,
    "The player becomes idle. The queue stays.",
    tag="Control",
)
SKIP: Final = Operation(
    "POST",
    f"{PLAYER}/skip",
    "Skip",
    DONE,
    "Without a body, the next track plays. With `to`, that track plays, and the tracks before it leave the queue. In "
    "loop mode `queue` they go to its end.",
    body=RequestBody(requests.SkipTarget, {"to a waiting track": {"to": "{track_id}"}}, is_required=False),
    codes=("track_not_found",),
    tag="Control",
)
PREVIOUS: Final = Operation(
    "POST",
    f"{PLAYER}/previous",
    "Go back to the previous track",
    DONE,
    codes=("no_previous",),
    tag="Control",
)

ADD_TRACKS: Final = Operation(
    "POST",
    f"{PLAYER}/queue",
    "Add one track or many",
    json_of(replies.TrackQueued, "The ids of the new tracks.", 201),
    "Either all tracks are added, or none.",
    body=RequestBody(
        requests.QueueEntry | requests.QueueEntries,
        {
            "one": {"uri": CLIP, "metadata": {"from": "ada"}},
            "the next one": {**_PART, "index": 0},
            "many": {"tracks": [{"uri": CLIP}, _PART], "index": 1},
        },
    ),
    codes=_SOURCE_CODES,
    tag="Queue",
)
LIST_QUEUE: Final = Operation(
    "GET",
    f"{PLAYER}/queue",
    "List the queue",
    json_of(
        list[replies.QueuedTrackDetails | replies.QueuedTrack],
        "The tracks, with three fields each. With `details`, each track has all facts that the node knows.",
        headers={
            "ETag": '`W/"<life>.<version>"`, with the `version` of the last QueueUpdate. It changes with the order.'
        },
    ),
    parameters=(
        flag("details", "Adds title, author, length, artwork and part, as far as they are known."),
        whole_number("offset", "The number of tracks to omit from the front; 0 by default.", 0, 100_000_000, 0),
        whole_number("limit", "The maximum number of tracks; all by default.", 1, 100_000_000, 10),
        whole_number(
            "wait", "With `details`: how long to wait for missing details, in ms; 0 by default.", 0, 5000, 100
        ),
    ),
    tag="Queue",
)
CLEAR_QUEUE: Final = Operation(
    "DELETE",
    f"{PLAYER}/queue",
    "Clear the queue",
    DONE,
    tag="Queue",
)
SHUFFLE_QUEUE: Final = Operation(
    "POST",
    f"{PLAYER}/queue/shuffle",
    "Shuffle the queue",
    DONE,
    tag="Queue",
)
MOVE_TRACK: Final = Operation(
    "PATCH",
    f"{PLAYER}/queue/{{track_id}}",
    "Move a track",
    DONE,
    body=RequestBody(requests.IndexPatch, {"to the front": {"index": 0}}),
    codes=("track_not_found",),
    tag="Queue",
)
REMOVE_TRACK: Final = Operation(
    "DELETE",
    f"{PLAYER}/queue/{{track_id}}",
    "Remove a track from the queue",
    DONE,
    codes=("track_not_found",),
    tag="Queue",
)

SET_LOOP: Final = Operation(
    "PATCH",
    f"{PLAYER}/loop",
    "Set the loop mode",
    DONE,
    body=RequestBody(requests.LoopPatch, {"the whole queue": {"mode": "queue"}, "off": {"mode": "none"}}),
    tag="Settings",
)
SET_CROSSFADE: Final = Operation(
    "PATCH",
    f"{PLAYER}/crossfade",
    "Change the crossfade",
    DONE,
    body=RequestBody(
        requests.CrossfadePatch,
        {"three seconds": {"durationMs": 3000, "curve": "equalPower", "onSkip": True}, "off": {"durationMs": 0}},
    ),
    tag="Settings",
)
SHOW_FILTERS: Final = Operation(
    "GET",
    f"{PLAYER}/filters",
    "Show volume, equalizer, effects",
    json_of(replies.Filters, "All filters."),
    tag="Settings",
)
CHANGE_FILTERS: Final = Operation(
    "PATCH",
    f"{PLAYER}/filters",
    "Change volume, equalizer, effects",
    DONE,
    "Absent filters stay as they are. null switches an effect off. Unknown names are refused.",
    body=RequestBody(
        requests.FiltersPatch,
        {
            "volume and bass": {"volume": 0.5, "eq": [{"band": 0, "gain_db": 6}, {"band": 1, "gain_db": 4}]},
            "faster and higher": {"timescale": {"speed": 1.1, "pitch": 1.2, "rate": 1.0}},
            "as Lavalink's clients send it": {
                "equalizer": [{"band": 0, "gain": 0.25}],
                "tremolo": {"frequency": 4, "depth": 0.5},
            },
            "everything flat": {"reset": True, "timescale": None},
        },
    ),
    tag="Settings",
)
CHANGE_METADATA: Final = Operation(
    "PATCH",
    f"{PLAYER}/metadata",
    "Change the player's metadata",
    DONE,
    body=RequestBody(
        requests.MetadataPatch,
        {"merge (RFC 7396)": {"value": {"channel": "lobby"}}, "replace": {"merge": False, "value": {"guild": 81}}},
    ),
    tag="Settings",
)

ADD_OVERLAYS: Final = Operation(
    "POST",
    f"{PLAYER}/overlays",
    "Play a sound over the music",
    json_of(replies.OverlayCreated | replies.OverlaysCreated, "The overlays' ids.", 201),
    "Several overlays begin with the same frame. Either all of them are added, or none. At most 8 play at once.",
    body=RequestBody(
        requests.NewOverlay | requests.NewOverlays,
        {
            "one": {"uri": CLIP, "endMs": 2000, "duckDb": -12},
            "several": {"overlays": [{"uri": CLIP, "endMs": 500}, {"uri": CLIP, "startMs": 500, "volume": 0.5}]},
        },
    ),
    codes=_SOURCE_CODES,
    tag="Overlays",
)
LIST_OVERLAYS: Final = Operation(
    "GET",
    f"{PLAYER}/overlays",
    "List overlays",
    json_of(list[replies.Overlay], "All overlays that are loading or playing."),
    tag="Overlays",
)
SHOW_OVERLAY: Final = Operation(
    "GET",
    f"{PLAYER}/overlays/{{overlay_id}}",
    "Show an overlay",
    json_of(replies.Overlay, "The overlay."),
    codes=("overlay_not_found",),
    tag="Overlays",
)
REMOVE_OVERLAY: Final = Operation(
    "DELETE",
    f"{PLAYER}/overlays/{{overlay_id}}",
    "Stop an overlay",
    DONE,
    codes=("overlay_not_found",),
    tag="Overlays",
)

"""The operations that need no player: those for tracks, sounds and files, and those for the node itself."""

from typing import Final

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
    words,
)
from tonearm.description.players import CLIP
from tonearm.protocol import replies, requests
from tonearm.protocol.saved_state import SavedNode

_ENCODED: Final = (
    "QAAATgMABFNvbmcAA0FkYQAAAAAAAtKoAAlzb25nLmZsYWMAAQAUL3Nydi9tdXNpYy9zb25nLmZsYWMAAAAFbG9jYWwABGZsYWMAAAAAAAAAAA=="
)
_PREFERRED: Final = Parameter(
    "Accept",
    "JSON is sent if the request prefers `application/json` to both `text/plain` and `*/*`.",
    {"type": "string"},
    "application/json",
    "header",
)
_ASKED: Final = ("source_blocked", "source_refused", "limit_reached")

LOAD_TRACKS: Final = Operation(
    "GET",
    "/v0/loadtracks",
    "Show the track of a URI",
    json_of(replies.LoadResult, "The track, or no track."),
    "The node opens the source, for at most 15 s.",
    parameters=(
        words("identifier", "A URI, a path, or a search such as `ytsearch:words`.", CLIP, is_required=True),
        flag("explain", "Adds `error` with the reason if there is no track."),
    ),
    codes=_ASKED,
    tag="Tracks",
    subject=Subject.NODE,
)
LOAD: Final = Operation(
    "GET",
    "/v0/load",
    "Load a text that a person typed",
    json_of(replies.Loaded, "A track, a list, the results of a search, nothing, or an error."),
    "The text may be an encoded track, a link, a search, a path, or words. The response has Lavalink's form.",
    parameters=(
        words("identifier", "The text that the person typed.", CLIP, is_required=True),
        whole_number("limit", "The maximum number of search results; 10 by default.", 1, 100, 5),
    ),
    codes=_ASKED,
    tag="Tracks",
    subject=Subject.NODE,
)
LOAD_PLAYLIST: Final = Operation(
    "GET",
    "/v0/loadplaylist",
    "List a playlist",
    json_of(replies.LoadedPlaylist, "Up to 500 entries. None of them was opened."),
    parameters=(words("identifier", "The URI of a playlist.", "list.m3u", is_required=True),),
    codes=("load_failed", "resolve_failed", *_ASKED),
    tag="Tracks",
    subject=Subject.NODE,
)
SEARCH: Final = Operation(
    "GET",
    "/v0/search",
    "Search a site",
    json_of(replies.FoundTracks, "The tracks, the best match first."),
    "Requires the resolver.",
    parameters=(
        words("query", "The words to search for.", "blackstreet no diggity", is_required=True),
        words("site", "A site that the resolver can search; `youtube` by default.", "soundcloud"),
        whole_number("limit", "The maximum number of tracks; 10 by default.", 1, 100, 5),
    ),
    codes=("resolver_disabled", "resolve_failed", *_ASKED),
    tag="Tracks",
    subject=Subject.NODE,
)
RESOLVE: Final = Operation(
    "GET",
    "/v0/resolve",
    "Find the link behind a page",
    (Reply(200, "The direct link.", {"text/plain": None, "application/json": replies.Resolved}),),
    "Requires the resolver.",
    parameters=(words("url", "The page's address.", "https://radio.example/", is_required=True), _PREFERRED),
    codes=("resolver_disabled", "resolve_failed", *_ASKED),
    tag="Tracks",
    subject=Subject.NODE,
)
ENCODE_TRACK: Final = Operation(
    "POST",
    "/v0/encodetrack",
    "Encode a track's facts",
    json_of(replies.TrackOut, "The track."),
    body=RequestBody(
        requests.TrackToEncode,
        {
            "the least": {"info": {"identifier": "https://radio.example/a.mp3"}},
            "all": {
                "info": {
                    "identifier": "song.flac",
                    "title": "Song",
                    "author": "Ada",
                    "length": 185000,
                    "isStream": False,
                    "uri": "/srv/music/song.flac",
                    "artworkUrl": None,
                    "isrc": "GBAYE0601477",
                    "sourceName": "file",
                }
            },
        },
    ),
    tag="Tracks",
    subject=Subject.NODE,
)
DECODE_TRACK: Final = Operation(
    "GET",
    "/v0/decodetrack",
    "Decode an encoded track",
    json_of(replies.TrackOut, "The track."),
    parameters=(words("encodedTrack", "The encoded track in base64, version 1 to 3.", _ENCODED, is_required=True),),
    codes=("invalid_identifier",),
    tag="Tracks",
    subject=Subject.NODE,
)
DECODE_TRACKS: Final = Operation(
    "POST",
    "/v0/decodetracks",
    "Decode many encoded tracks",
    json_of(list[replies.TrackOut], "The tracks, in the same order."),
    body=RequestBody(requests.EncodedTracks, {"two": [_ENCODED, _ENCODED]}),
    codes=("invalid_identifier",),
    tag="Tracks",
    subject=Subject.NODE,
)

LIST_FILES: Final = Operation(
    "GET",
    "/v0/files",
    "Browse the music on the node's machine",
    json_of(replies.LibraryFiles, "Folders first, then files, each in natural order."),
    "Lists audio files and playlists by extension, but no hidden files. A client that may not play files gets no list.",
    parameters=(
        words("path", "The `path` of a folder; the library's folders by default.", "/0"),
        words("query", "Lists only files below `path` whose names or folders contain all these words.", "welcome"),
        whole_number("offset", "The number of entries to omit; 0 by default.", 0, 1_000_000, 0),
        whole_number("limit", "The maximum number of entries; 200 by default.", 1, 1000, 50),
        flag("details", "Opens the first 100 audio files of the response, to add title, author and length."),
    ),
    codes=("file_not_found", "source_refused"),
    tag="Tracks",
    subject=Subject.NODE,
)
SEND_FILE: Final = Operation(
    "POST",
    "/v0/files",
    "Upload a file",
    json_of(replies.SentFile, "The file can be played.", 201),
    "The body is the file. It appears once it is complete and could be opened. An incomplete file is deleted.",
    parameters=(
        words(
            "name",
            "The file's name, with the extension of an audio file. If the name is taken, a number is added.",
            "song.wav",
            is_required=True,
        ),
    ),
    takes_bytes=True,
    codes=("uploads_off", "source_refused", "source_blocked", "load_failed", "limit_reached", "disk_full"),
    tag="Tracks",
    subject=Subject.NODE,
)
SEND_SOUND: Final = Operation(
    "POST",
    "/v0/sounds",
    "Upload a sound",
    json_of(replies.SentSound, "The sound can be played until it expires.", 201),
    "The body is an audio file, with any content type. The node keeps it in memory for `sounds.keep_s` after its last "
    "use.",
    takes_bytes=True,
    codes=("load_failed", "source_blocked", "limit_reached"),
    tag="Tracks",
    subject=Subject.NODE,
)
GET_SOUND: Final = Operation(
    "GET",
    "/v0/sounds/{sound_id}",
    "Download a sound",
    (Reply(200, "The bytes of the sound.", {"application/octet-stream": None, "audio/*": None}),),
    codes=("not_found",),
    tag="Tracks",
    subject=Subject.NODE,
)
END_SOUND: Final = Operation(
    "DELETE",
    "/v0/sounds/{sound_id}",
    "Delete a sound",
    DONE,
    "Players that are playing the sound play it to its end.",
    codes=("not_found",),
    tag="Tracks",
    subject=Subject.NODE,
)

SHOW_INDEX: Final = Operation(
    "GET",
    "/",
    "List all paths",
    (Reply(200, "All paths; for a browser as a page.", {"application/json": replies.NodeIndex, "text/html": None}),),
    tag="Node",
    subject=Subject.NODE,
)
SHOW_BUILD: Final = Operation(
    "GET",
    "/info",
    "Show the build",
    json_of(replies.NodeInfo, "The version and the time of the build."),
    tag="Node",
    subject=Subject.NODE,
)
SHOW_VERSION: Final = Operation(
    "GET",
    "/version",
    "Show the version",
    (Reply(200, "The version.", {"text/plain": None, "application/json": replies.NodeVersion}),),
    parameters=(_PREFERRED,),
    tag="Node",
    subject=Subject.NODE,
)
SHOW_STATS: Final = Operation(
    "GET",
    "/v0/stats",
    "Show the node's statistics",
    json_of(replies.Stats, "The figures. Counts are since the node's start."),
    tag="Node",
    subject=Subject.NODE,
)
GET_RECORDS: Final = Operation(
    "GET",
    "/v0/state",
    "Get the records of all players",
    json_of(SavedNode, "The records, in the order in which the players were created."),
    tag="Node",
    subject=Subject.ALL_PLAYERS,
)
SHOW_METRICS: Final = Operation(
    "GET",
    "/metrics",
    "Show the figures for Prometheus",
    (Reply(200, "The figures in Prometheus' text format, 0.0.4.", {"text/plain": None}),),
    tag="Node",
    subject=Subject.NODE,
)
SHOW_HEALTH: Final = Operation(
    "GET",
    "/healthz",
    "Check that the process answers",
    json_of(replies.NodeStatus, "The process answers."),
    tag="Node",
    subject=Subject.NODE,
)
SHOW_READINESS: Final = Operation(
    "GET",
    "/readyz",
    "Check whether the node can play",
    json_of(
        replies.NodeStatus,
        "Decoders are up and have room, and the clock is on time. `degraded`: the node plays, but does not keep its "
        "state.",
    ),
    codes=("not_ready",),
    tag="Node",
    subject=Subject.NODE,
)
DESCRIBE_PATHS: Final = Operation(
    "GET",
    "/openapi.json",
    "Describe the paths",
    (Reply(200, "This description, in OpenAPI 3.1.", {"application/json": dict}),),
    tag="Node",
    subject=Subject.NODE,
)
DESCRIBE_SOCKETS: Final = Operation(
    "GET",
    "/asyncapi.json",
    "Describe the sockets",
    (Reply(200, "The description of the sockets, in AsyncAPI 3.0.", {"application/json": dict}),),
    tag="Node",
    subject=Subject.NODE,
)
SHOW_DOCS: Final = Operation(
    "GET",
    "/docs",
    "Show both descriptions",
    (Reply(200, "A page with both descriptions. It uses no scripts and no other hosts.", {"text/html": None}),),
    tag="Node",
    subject=Subject.NODE,
)

SHOW_DASHBOARD: Final = Operation(
    "GET",
    "/dashboard",
    "Open the node's dashboard in a browser",
    (Reply(308, "The page is at `/dashboard/`.", headers={"Location": "`/dashboard/`"}),),
    "A node without a password serves the dashboard to its own machine. A node with a password requires "
    "`dashboard.login` for it. Otherwise use `tonearm dashboard`.",
    codes=("not_found",),
    tag="Node",
    subject=Subject.NODE,
)
LOG_IN: Final = Operation(
    "POST",
    "/dashboard/login",
    "Log in with a browser",
    (
        Reply(
            204,
            "The browser is logged in. The cookie replaces the password.",
            headers={"Set-Cookie": "The cookie. It is valid only for pages of the node's own address."},
        ),
    ),
    "Requires `dashboard.login`. One address may try five wrong passwords a minute, all addresses together fifty.",
    body=RequestBody(requests.DashboardLogin, {"for a month": {"password": "sesame", "stay": True}}),
    codes=("limit_reached",),
    tag="Node",
    subject=Subject.NODE,
)
LOG_OUT: Final = Operation(
    "POST",
    "/dashboard/logout",
    "Log all browsers out",
    DONE,
    "Requires `dashboard.login`. All cookies become invalid.",
    tag="Node",
    subject=Subject.NODE,
)
# The files of the dashboard's page. They are not a part of the interface.
DASHBOARD_FILES: Final = tuple(
    Operation("GET", path, "A file of the dashboard", (Reply(200, "The file."),), subject=Subject.NODE)
    for path in ("/dashboard/", "/dashboard/{file}", "/dashboard/{folder}/{file}")
)

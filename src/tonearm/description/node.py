"""The paths that need no player: tracks, and the node itself."""

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
    "Say what a URI is",
    json_of(replies.LoadResult, "A track, or no track."),
    "Opens the source, for at most 15 s.",
    parameters=(
        words("identifier", "A URI, a path, or a search such as `ytsearch:words`.", CLIP, is_required=True),
        flag("explain", "Also say in `error` why there is no track."),
    ),
    codes=_ASKED,
    tag="Tracks",
    subject=Subject.NODE,
)
LOAD: Final = Operation(
    "GET",
    "/v0/load",
    "Load whatever somebody types",
    json_of(replies.Loaded, "A track, a list, what a search found, nothing, or why not."),
    "An encoded track, a link, a search, a path, or words, in Lavalink's shapes.",
    parameters=(
        words("identifier", "What somebody typed.", CLIP, is_required=True),
        whole_number("limit", "How many results of a search at most; 10 by default.", 1, 100, 5),
    ),
    codes=_ASKED,
    tag="Tracks",
    subject=Subject.NODE,
)
LOAD_PLAYLIST: Final = Operation(
    "GET",
    "/v0/loadplaylist",
    "List a playlist",
    json_of(replies.LoadedPlaylist, "Up to 500 entries, none of which was opened."),
    parameters=(words("identifier", "The URI of a playlist.", "list.m3u", is_required=True),),
    codes=("load_failed", "resolver_disabled", "resolve_failed", *_ASKED),
    tag="Tracks",
    subject=Subject.NODE,
)
SEARCH: Final = Operation(
    "GET",
    "/v0/search",
    "Search a site",
    json_of(replies.FoundTracks, "The best match first."),
    "Only with the resolver.",
    parameters=(
        words("query", "What to look for.", "blackstreet no diggity", is_required=True),
        words("site", "A site that the resolver can search; `youtube` by default.", "soundcloud"),
        whole_number("limit", "How many at most; 10 by default.", 1, 100, 5),
    ),
    codes=("resolver_disabled", "resolve_failed", "load_failed", *_ASKED),
    tag="Tracks",
    subject=Subject.NODE,
)
RESOLVE: Final = Operation(
    "GET",
    "/v0/resolve",
    "Find the link behind a page",
    (Reply(200, "The direct link.", {"text/plain": None, "application/json": replies.Resolved}),),
    "Only with the resolver.",
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
    parameters=(words("encodedTrack", "In base64; versions 1 to 3.", _ENCODED, is_required=True),),
    codes=("invalid_identifier",),
    tag="Tracks",
    subject=Subject.NODE,
)
DECODE_TRACKS: Final = Operation(
    "POST",
    "/v0/decodetracks",
    "Decode many encoded tracks",
    json_of(list[replies.TrackOut], "In the same order."),
    body=RequestBody(requests.EncodedTracks, {"two": [_ENCODED, _ENCODED]}),
    codes=("invalid_identifier",),
    tag="Tracks",
    subject=Subject.NODE,
)

LIST_FILES: Final = Operation(
    "GET",
    "/v0/files",
    "Browse the music on the node's machine",
    json_of(replies.LibraryFiles, "Folders first, each in natural order."),
    "Lists audio files and playlists by extension, and no hidden files. A request that may not play files sees none.",
    parameters=(
        words("path", "A folder, as the entries name it; default: the library's folders.", "/0"),
        words("query", "Words that the name or folder of a file below `path` must all contain.", "welcome"),
        whole_number("offset", "How many entries to pass over.", 0, 1_000_000, 0),
        whole_number("limit", "How many entries at most; 200 by default.", 1, 1000, 50),
        flag("details", "Opens the first 100 audio files among the entries, for title, author and length."),
    ),
    codes=("file_not_found", "source_refused"),
    tag="Tracks",
    subject=Subject.NODE,
)
SEND_FILE: Final = Operation(
    "POST",
    "/v0/files",
    "Send a file",
    json_of(replies.SentFile, "The file can be played.", 201),
    "The body is the file. The file appears once it is whole and could be opened; half a file leaves nothing.",
    parameters=(
        words(
            "name",
            "The file's name, with the extension of an audio file; a number is added if the name is taken.",
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
    "Send a sound",
    json_of(replies.SentSound, "The sound is kept for a while.", 201),
    "The body is a sound, under any content type. The sound is in memory for `sounds.keep_s` after its last use.",
    takes_bytes=True,
    codes=("load_failed", "source_blocked", "limit_reached"),
    tag="Tracks",
    subject=Subject.NODE,
)
GET_SOUND: Final = Operation(
    "GET",
    "/v0/sounds/{sound_id}",
    "Get a sound back",
    (Reply(200, "Its bytes.", {"application/octet-stream": None, "audio/*": None}),),
    codes=("not_found",),
    tag="Tracks",
    subject=Subject.NODE,
)
END_SOUND: Final = Operation(
    "DELETE",
    "/v0/sounds/{sound_id}",
    "Forget a sound",
    DONE,
    "Players that play the sound play on.",
    codes=("not_found",),
    tag="Tracks",
    subject=Subject.NODE,
)

SHOW_INDEX: Final = Operation(
    "GET",
    "/",
    "List all paths",
    (Reply(200, "All paths; for a browser, a page.", {"application/json": replies.NodeIndex, "text/html": None}),),
    tag="Node",
    subject=Subject.NODE,
)
SHOW_BUILD: Final = Operation(
    "GET",
    "/info",
    "Name the build",
    json_of(replies.NodeInfo, "Version and time of the build."),
    tag="Node",
    subject=Subject.NODE,
)
SHOW_VERSION: Final = Operation(
    "GET",
    "/version",
    "Name the version",
    (Reply(200, "The version.", {"text/plain": None, "application/json": replies.NodeVersion}),),
    parameters=(_PREFERRED,),
    tag="Node",
    subject=Subject.NODE,
)
SHOW_STATS: Final = Operation(
    "GET",
    "/v0/stats",
    "Show the node's statistics",
    json_of(replies.Stats, "Counts since its start."),
    tag="Node",
    subject=Subject.NODE,
)
GET_RECORDS: Final = Operation(
    "GET",
    "/v0/state",
    "Get the records of all players",
    json_of(SavedNode, "In the order of creation."),
    tag="Node",
    subject=Subject.ALL_PLAYERS,
)
SHOW_METRICS: Final = Operation(
    "GET",
    "/metrics",
    "The figures for Prometheus",
    (Reply(200, "Prometheus' text format, 0.0.4.", {"text/plain": None}),),
    tag="Node",
    subject=Subject.NODE,
)
SHOW_HEALTH: Final = Operation(
    "GET",
    "/healthz",
    "Check that the process answers",
    json_of(replies.NodeStatus, "It does."),
    tag="Node",
    subject=Subject.NODE,
)
SHOW_READINESS: Final = Operation(
    "GET",
    "/readyz",
    "Check whether the node can play",
    json_of(
        replies.NodeStatus,
        "Decoders are up and have room, and the clock is on time. Degraded: the node plays, but keeps no state.",
    ),
    codes=("not_ready",),
    tag="Node",
    subject=Subject.NODE,
)
DESCRIBE_PATHS: Final = Operation(
    "GET",
    "/openapi.json",
    "Describe the paths",
    (Reply(200, "OpenAPI 3.1: this description.", {"application/json": dict}),),
    tag="Node",
    subject=Subject.NODE,
)
DESCRIBE_SOCKETS: Final = Operation(
    "GET",
    "/asyncapi.json",
    "Describe the sockets",
    (Reply(200, "AsyncAPI 3.0.", {"application/json": dict}),),
    tag="Node",
    subject=Subject.NODE,
)
SHOW_DOCS: Final = Operation(
    "GET",
    "/docs",
    "Show both descriptions",
    (Reply(200, "A page that needs no script and no other host.", {"text/html": None}),),
    tag="Node",
    subject=Subject.NODE,
)

SHOW_DASHBOARD: Final = Operation(
    "GET",
    "/dashboard",
    "Open the node's dashboard in a browser",
    (Reply(308, "The page is at `/dashboard/`.", headers={"Location": "`/dashboard/`"}),),
    "A node without password serves it to its own machine. A node with a password serves it with `dashboard.login`. "
    "Else use `tonearm dashboard`.",
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
            "Logged in: the cookie counts as the password.",
            headers={"Set-Cookie": "Only for pages of the node's own address."},
        ),
    ),
    "Only with `dashboard.login`. An address may try five wrong passwords a minute, all addresses together fifty.",
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
    "Only with `dashboard.login`. All cookies end.",
    tag="Node",
    subject=Subject.NODE,
)
# The page's files, which are no part of the interface.
DASHBOARD_FILES: Final = tuple(
    Operation("GET", path, "A file of the dashboard", (Reply(200, "The file."),), subject=Subject.NODE)
    for path in ("/dashboard/", "/dashboard/{file}", "/dashboard/{folder}/{file}")
)

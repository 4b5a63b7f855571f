"""The endpoints that need no player: searching, resolving, loading, encoding and decoding tracks.

Tracks are decoded in a thread: a hostile thousand of them takes a tenth of a second.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from tonearm.core.errors import BadRequest, InvalidIdentifier
from tonearm.core.metadata import Json
from tonearm.core.track_codec import decode_track, encode_track
from tonearm.core.track_info import TrackInfo
from tonearm.description.node import (
    DECODE_TRACK,
    DECODE_TRACKS,
    ENCODE_TRACK,
    LOAD,
    LOAD_PLAYLIST,
    LOAD_TRACKS,
    RESOLVE,
    SEARCH,
)
from tonearm.node.node import Node
from tonearm.node.tracks import Loaded
from tonearm.protocol.rendering import (
    found_tracks_out,
    listed_track_out,
    load_error_out,
    load_result_out,
    loaded_list_out,
    loaded_search_out,
    loaded_track_out,
    track_out,
)
from tonearm.protocol.requests import MAX_ENCODED_TRACKS, TrackToEncode
from tonearm.protocol.wire_model import json_text
from tonearm.server.audio_settings import read_whole_number
from tonearm.server.bodies import read_body, read_json
from tonearm.server.http_server import while_connected
from tonearm.server.replies import (
    BodyTooLarge,
    encoded_list_reply,
    encoded_reply,
    json_object_reply,
    json_reply,
    prefers_json,
)
from tonearm.server.routing import Call, Route

DEFAULT_SITE: Final = "youtube"
DEFAULT_SEARCH_LIMIT: Final = 10
MAX_SEARCH_LIMIT: Final = 100


class TrackRoutes:
    def __init__(self, node: Node) -> None:
        self._node = node

    def routes(self) -> Sequence[Route]:
        return (
            Route(RESOLVE, self._resolve),
            Route(LOAD, self._load_any),
            Route(LOAD_TRACKS, self._load),
            Route(LOAD_PLAYLIST, self._load_playlist),
            Route(SEARCH, self._search),
            Route(ENCODE_TRACK, self._encode),
            Route(DECODE_TRACK, self._decode),
            Route(DECODE_TRACKS, self._decode_many),
        )

    async def _resolve(self, call: Call) -> web.Response:
        url = call.target.required_parameter("url")
        resolving = self._node.lookup.resolve(url, came_through_proxy=call.came_through_proxy)
        url = await while_connected(call.request, resolving)
        if prefers_json(call.request.headers.getall("Accept", [])):
            return json_reply({"url": url})
        return web.Response(text=url)

    async def _load(self, call: Call) -> web.Response:
        identifier = call.target.required_parameter("identifier")
        explains = call.target.flag("explain")
        loaded = await while_connected(
            call.request, self._node.lookup.load(identifier, came_through_proxy=call.came_through_proxy)
        )
        return json_reply(load_result_out(loaded if explains or isinstance(loaded, TrackInfo) else None))

    async def _load_any(self, call: Call) -> web.StreamResponse:
        text = call.target.required_parameter("identifier")
        limit = read_whole_number(call.target, "limit", lowest=1, highest=MAX_SEARCH_LIMIT) or DEFAULT_SEARCH_LIMIT
        looking = self._node.lookup.find(text, limit, came_through_proxy=call.came_through_proxy)
        return encoded_reply(await asyncio.to_thread(_loaded_out, await while_connected(call.request, looking)))

    async def _load_playlist(self, call: Call) -> web.StreamResponse:
        identifier = call.target.required_parameter("identifier")
        found = await while_connected(
            call.request, self._node.lookup.load_playlist(identifier, came_through_proxy=call.came_through_proxy)
        )
        fields = found_tracks_out(found.name, found.selected, found.left_out)
        return await json_object_reply(call.request, fields, "tracks", map(listed_track_out, found.tracks))

    async def _search(self, call: Call) -> web.StreamResponse:
        query = call.target.required_parameter("query")
        site = call.target.parameter("site")
        limit = read_whole_number(call.target, "limit", lowest=1, highest=MAX_SEARCH_LIMIT) or DEFAULT_SEARCH_LIMIT
        search = self._node.lookup.search(
            query, DEFAULT_SITE if site is None else site, limit, came_through_proxy=call.came_through_proxy
        )
        found = await while_connected(call.request, search)
        fields = found_tracks_out(None, -1, found.left_out)
        return await json_object_reply(call.request, fields, "tracks", map(listed_track_out, found.tracks))

    async def _encode(self, call: Call) -> web.Response:
        info = (await read_body(call.request, TrackToEncode)).as_info()
        try:
            encoded = await asyncio.to_thread(encode_track, info)
        except ValueError as error:
            raise BadRequest(f"This cannot be encoded. {error}") from error
        return encoded_reply(await asyncio.to_thread(_decoded, encoded))

    async def _decode(self, call: Call) -> web.Response:
        encoded = call.target.required_parameter("encodedTrack", keeps_plus=True)
        return encoded_reply(await asyncio.to_thread(_decoded, encoded))

    async def _decode_many(self, call: Call) -> web.Response:
        entries = _identifiers_of(await read_json(call.request))
        return encoded_list_reply(await asyncio.to_thread(_all_decoded, entries))


def _identifiers_of(body: Json) -> list[str]:
    """The entries of a decodetracks body. Raises `BadRequest` and `BodyTooLarge`.

    Not by a model: its sentences count entries from 0 and name the first wrong one among thousands of good ones.
    """
    if not isinstance(body, list):
        raise BadRequest("The body must be an array of encoded tracks, each a string.")
    if len(body) > MAX_ENCODED_TRACKS:
        raise BodyTooLarge(f"The body has {len(body)} entries. Send at most {MAX_ENCODED_TRACKS} at once.")
    entries: list[str] = []
    for index, entry in enumerate(body):
        if not isinstance(entry, str):
            raise BadRequest(f"Entry {index} (counted from 0) must be a string.")
        entries.append(entry)
    return entries


def _all_decoded(entries: Sequence[str]) -> list[bytes]:
    """TrackOuts as JSON, in the order of `entries`. Raises `InvalidIdentifier` that names the first wrong one."""
    tracks: list[bytes] = []
    for index, encoded in enumerate(entries):
        try:
            tracks.append(_decoded(encoded))
        except InvalidIdentifier as error:
            raise InvalidIdentifier(f"Entry {index} (counted from 0): {error.message}") from error
    return tracks


def _decoded(encoded: str) -> bytes:
    """TrackOut as JSON. Raises `InvalidIdentifier`."""
    return json_text(track_out(decode_track(encoded), {}, encoded=encoded))


def _loaded_out(loaded: Loaded) -> bytes:
    """`replies.Loaded` as JSON."""
    tracks = [] if loaded.listed is None else [listed_track_out(track) for track in loaded.listed.tracks]
    if loaded.failure is not None:
        return json_text(load_error_out(loaded.failure))
    if loaded.track is not None:
        return json_text(loaded_track_out(loaded.track))
    if loaded.listed is None or loaded.playlist is None:
        return json_text(loaded_search_out(tracks))
    named = (loaded.listed.name, loaded.listed.selected)
    return json_text(loaded_list_out(*named, loaded.playlist, loaded.url, tracks))

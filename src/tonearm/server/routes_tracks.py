"""What can be asked about sources and tracks without a player."""

from collections.abc import Sequence

from aiohttp import web

from tonearm.server.body import read_json
from tonearm.server.client_presence import while_connected
from tonearm.server.negotiation import prefers_json
from tonearm.server.node_api import NodeApi
from tonearm.server.replies import encoded_list_reply, encoded_reply, json_reply
from tonearm.server.routing import Call, Route
from tonearm.server.track_decoding import decoded_track, decoded_tracks, identifiers_of


class TrackRoutes:
    def __init__(self, node: NodeApi) -> None:
        self._node = node

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "/v0/resolve", self._resolve),
            Route("GET", "/v0/loadtracks", self._load),
            Route("GET", "/v0/decodetrack", self._decode),
            Route("POST", "/v0/decodetracks", self._decode_many),
        )

    async def _resolve(self, call: Call) -> web.Response:
        url = await self._node.resolve(call.target.required_parameter("url"))
        if prefers_json(call.request.headers.getall("Accept", [])):
            return json_reply({"url": url})
        return web.Response(text=url)

    async def _load(self, call: Call) -> web.Response:
        identifier = call.target.required_parameter("identifier")
        track = await while_connected(call.request, self._node.load_track(identifier))
        if track is None:
            return json_reply({"loadType": "empty", "data": {}})
        return json_reply({"loadType": "track", "data": track})

    async def _decode(self, call: Call) -> web.Response:
        encoded = call.target.required_parameter("encodedTrack", keeps_plus=True)
        return encoded_reply(await decoded_track(encoded))

    async def _decode_many(self, call: Call) -> web.Response:
        entries = identifiers_of(await read_json(call.request))
        return encoded_list_reply(await decoded_tracks(entries))

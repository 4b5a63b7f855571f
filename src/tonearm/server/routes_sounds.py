"""The endpoints of sounds that clients send as bytes, for a while. There is no list of them."""

import re
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web

from tonearm.core.errors import LoadFailed
from tonearm.core.metadata import JsonObject
from tonearm.description.node import END_SOUND, GET_SOUND, SEND_SOUND
from tonearm.node.node import Node
from tonearm.server.bodies import read_raw
from tonearm.server.http_server import while_connected
from tonearm.server.replies import NotFound, json_reply, no_content
from tonearm.server.routing import Call, Route

_GONE: Final = "The sound does not exist, or no longer exists. Send it again with POST /v0/sounds."
_AUDIO: Final = re.compile(r"audio/[a-z0-9.+-]{1,60}", re.ASCII)


class SoundRoutes:
    def __init__(self, node: Node) -> None:
        self._node = node

    def routes(self) -> Sequence[Route]:
        return Route(SEND_SOUND, self._send), Route(GET_SOUND, self._get), Route(END_SOUND, self._end)

    async def _send(self, call: Call) -> web.Response:
        request, lookup = call.request, self._node.lookup
        limits, announced = lookup.sounds.limits, request.content_length
        if announced is None or "Content-Encoding" in request.headers:  # then its size is known when it is there
            announced = limits.max_bytes
        with lookup.sounds.arriving(min(announced, limits.max_bytes)) as sound:
            sound.data, sound.content_type = await read_raw(request, limits.max_bytes), request.content_type
            if not sound.data:
                raise LoadFailed("The body is empty. Send the bytes of a sound in it.")
            await while_connected(request, lookup.measure(sound))
        expires_at = time.time_ns() // 1_000_000 + round(limits.keep_s * 1000)
        body: JsonObject = {
            "uri": sound.uri,
            "length": sound.length_ms,
            "bytes": len(sound.data),
            "expiresAt": expires_at,
        }
        return json_reply(body, HTTPStatus.CREATED)

    async def _get(self, call: Call) -> web.Response:
        sound = self._node.lookup.sounds.use(call.arguments["{sound_id}"])
        if sound is None:
            raise NotFound(_GONE)
        # Only audio types are passed on, so that a browser treats no sound as a page, whatever type its sender gave.
        media_type = sound.content_type if _AUDIO.fullmatch(sound.content_type) else "application/octet-stream"
        headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
        return web.Response(body=sound.data, content_type=media_type, headers=headers)

    async def _end(self, call: Call) -> web.Response:
        if not self._node.lookup.sounds.forget(call.arguments["{sound_id}"]):
            raise NotFound(_GONE)
        return no_content()

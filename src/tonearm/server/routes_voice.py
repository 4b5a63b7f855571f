"""The endpoints of a player's voice in a Discord channel."""

from collections.abc import Sequence
from typing import Final

from aiohttp import web

from tonearm.description.voice import JOIN_VOICE, LEAVE_VOICE, SHOW_VOICE
from tonearm.node.node import Node
from tonearm.protocol.rendering import voice_out
from tonearm.protocol.requests import VoicePut
from tonearm.server.audio_settings import read_whole_number
from tonearm.server.bodies import read_body
from tonearm.server.http_server import while_connected
from tonearm.server.replies import json_reply, no_content
from tonearm.server.routing import Call, Route

MAX_WAIT_MS: Final = 10_000


class VoiceRoutes:
    def __init__(self, node: Node) -> None:
        self._node = node

    def routes(self) -> Sequence[Route]:
        return Route(JOIN_VOICE, self._put), Route(SHOW_VOICE, self._show), Route(LEAVE_VOICE, self._leave)

    async def _put(self, call: Call) -> web.Response:
        body = await read_body(call.request, VoicePut)
        self._node.put_voice(call.player_id, *body.as_target())
        return no_content()

    async def _show(self, call: Call) -> web.Response:
        wait_ms = read_whole_number(call.target, "wait", lowest=0, highest=MAX_WAIT_MS) or 0
        status = await while_connected(call.request, self._node.voice_settled(call.player_id, wait_ms / 1000))
        return json_reply({"state": "none"} if status is None else voice_out(status))

    async def _leave(self, call: Call) -> web.Response:
        self._node.leave_voice(call.player_id)
        return no_content()

"""The endpoints of players' records: to keep players, or to move them to another node."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web

from tonearm.core.overlays import MAX_OVERLAYS
from tonearm.core.play_queue import MAX_PLAYED
from tonearm.core.snapshot import STATE_VERSION
from tonearm.description.node import GET_RECORDS
from tonearm.description.players import GET_RECORD, PUT_RECORD
from tonearm.node.node import Node
from tonearm.player.handle import PlayerHandle
from tonearm.protocol.rendering import player_out
from tonearm.protocol.wire_model import json_text
from tonearm.server.records import RecordLimits, read_record, record_slices
from tonearm.server.replies import SLICE_BYTES, SLICE_S, json_reply, sliced_reply
from tonearm.server.routing import Call, Route

# A record has what waits in the queue, beside what the node knows of it. The least that a record may have: history and
# metadata of the player have limits of their own.
LEAST_MAX_BYTES: Final = 32 * 1024 * 1024
LEAST_MAX_VALUES: Final = 1_000_000
# Of metadata as clients write them; `[0,0,0` has fewer, and takes most memory when it is read.
_BYTES_A_VALUE: Final = 6


class StateRoutes:
    def __init__(self, node: Node) -> None:
        self._node = node

    def routes(self) -> Sequence[Route]:
        return (
            Route(GET_RECORDS, self._all),
            Route(GET_RECORD, self._one),
            Route(PUT_RECORD, self._take_over),
        )

    async def _all(self, call: Call) -> web.StreamResponse:
        """Sends each record as soon as it is made, because all records together may be too much for the memory."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(call.request)
        if call.request.method == "HEAD":
            return response
        some, size_bytes, before = [json_text({"version": STATE_VERSION})[:-1] + b',"players":['], 0, b""
        ends_s = time.monotonic() + SLICE_S
        for player in self._node.players():
            for part in _record(player):
                some.append(before + part)
                before = b""
                size_bytes += len(part)
                if size_bytes >= SLICE_BYTES or time.monotonic() > ends_s:
                    await response.write(b"".join(some))
                    await asyncio.sleep(0)
                    some, size_bytes, ends_s = [], 0, time.monotonic() + SLICE_S
            before = b","
        await response.write_eof(b"".join((*some, b"]}")))
        return response

    async def _one(self, call: Call) -> web.StreamResponse:
        return await sliced_reply(call.request, _record(self._node.player(call.player_id)))

    async def _take_over(self, call: Call) -> web.Response:
        settings = self._node.settings
        limits = RecordLimits(
            max_bytes=max(LEAST_MAX_BYTES, 2 * settings.max_waiting_bytes),
            max_values=max(LEAST_MAX_VALUES, settings.max_waiting_bytes // _BYTES_A_VALUE),
            max_tracks=settings.max_waiting_tracks + MAX_PLAYED + 1 + MAX_OVERLAYS,
        )
        snapshot = await read_record(call.request, limits, call.player_id, came_through_proxy=call.came_through_proxy)
        replaced = await self._node.take_over(snapshot, call.request.client)
        call.new_players.append(call.player_id)
        status = HTTPStatus.OK if replaced else HTTPStatus.CREATED
        return json_reply(player_out(self._node.player(call.player_id).status()), status)


def _record(player: PlayerHandle) -> Iterator[bytes]:
    """The player at the time of the first slice; facts about its tracks may be newer."""
    return record_slices(player.record(), time.time_ns() // 1_000_000)

"""The endpoints of players: creating and deleting them, their playback, their queue, their settings."""

import random
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web

from tonearm.core.errors import BadRequest
from tonearm.core.metadata import Json, JsonObject
from tonearm.core.playback_requests import Requests
from tonearm.core.playback_state import FirstSettings, Outcome
from tonearm.description import players as operations
from tonearm.node.node import AddedTracks, Node
from tonearm.node.tracks import WantedTrack
from tonearm.protocol import requests
from tonearm.protocol.rendering import (
    filters_out,
    played_track_out,
    player_created_out,
    player_out,
    queued_track_details_out,
    queued_track_out,
    track_queued_out,
)
from tonearm.server.audio_settings import read_whole_number
from tonearm.server.bodies import ModelT, as_model, read_body, read_json
from tonearm.server.http_server import EdgeRequest, while_connected
from tonearm.server.replies import BodyTooLarge, json_list_reply, json_reply, no_content, picture_reply
from tonearm.server.routing import Call, Handler, Route

# A skip comes after the changes of the queue that were asked for before it. But a playlist from a slow server must not
# keep the skipped track playing for long.
SKIP_PATIENCE_S: Final = 1.0
MAX_OFFSET: Final = 100_000_000  # more than any queue holds
MAX_WAIT_MS: Final = 5_000  # for titles of waiting tracks


class _PlayerHandlers:
    """Makes handlers. One that awaits, for a body or for anything else, asks the node for the player afterwards."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def _order(self, order: Callable[[Requests], Outcome]) -> Handler:
        """A handler that calls the player without a body."""

        async def handler(call: Call) -> web.Response:
            self._node.player(call.player_id).do(order)
            return no_content()

        return handler

    def _change(self, model: type[ModelT], change: Callable[[Requests, ModelT], Outcome]) -> Handler:
        """A handler that changes the player by the body."""

        async def handler(call: Call) -> web.Response:
            body = await read_body(call.request, model)
            self._node.player(call.player_id).do(change, body)
            return no_content()

        return handler

    def _change_queue(self, change: Callable[[Requests, Call], Outcome]) -> Handler:
        """As `_order`, after earlier requests that change the player's queue."""

        async def handler(call: Call) -> web.Response:
            async with self._node.changing_queue(call.player_id):
                self._node.player(call.player_id).do(change, call)
            return no_content()

        return handler


class PlayerRoutes(_PlayerHandlers):
    """The endpoints of players, but for their queues. `name` is the node's in a cluster."""

    def __init__(self, node: Node, name: str = "") -> None:
        super().__init__(node)
        self._of_node: JsonObject = {"node": name} if name else {}

    def routes(self) -> Sequence[Route]:
        return (
            Route(operations.CREATE_PLAYER, self._create),
            Route(operations.LIST_PLAYERS, self._list),
            Route(operations.SHOW_PLAYER, self._state),
            Route(operations.DELETE_PLAYER, self._delete),
            Route(operations.PLAY, self._order(Requests.play)),
            Route(operations.PAUSE, self._order(Requests.pause)),
            Route(operations.SEEK, self._seek),
            Route(operations.SKIP, self._skip),
            Route(operations.REPLACE_TRACK, self._replace),
            Route(operations.STOP, self._order(Requests.stop)),
            Route(operations.PREVIOUS, self._change_queue(lambda rules, _: rules.previous())),
            Route(operations.SHOW_HISTORY, self._history),
            Route(operations.SHOW_ARTWORK, self._artwork),
            Route(operations.SET_LOOP, self._change(requests.LoopPatch, lambda rules, body: rules.set_loop(body.mode))),
            Route(
                operations.SET_CROSSFADE,
                self._change(requests.CrossfadePatch, lambda rules, body: rules.change_crossfade(body.as_edit())),
            ),
            Route(operations.SHOW_FILTERS, self._filters),
            Route(
                operations.CHANGE_FILTERS,
                self._change(requests.FiltersPatch, lambda rules, body: rules.change_filters(body.as_change())),
            ),
            Route(operations.CHANGE_METADATA, self._change_metadata),
        )

    async def _create(self, call: Call) -> web.Response:
        body = await read_body(call.request, requests.NewPlayer)
        first = body.first_track()
        added = await self._node.create_player(
            body.id,
            None if first is None else wanted_track(call, first, "" if first is body else "track."),
            body.metadata,
            settings=FirstSettings(body.paused, body.first_filters(), body.loop),
            voice=body.voice.as_target("voice.") if "voice" in body.model_fields_set else None,
            client=call.request.client,
        )
        call.new_players.append(body.id)
        return json_reply(player_created_out(body.id, added.left_out, added.warnings), HTTPStatus.CREATED)

    async def _list(self, call: Call) -> web.StreamResponse:
        players = (player_out(player.status()) | self._of_node for player in self._node.players())
        return await json_list_reply(call.request, players)

    async def _state(self, call: Call) -> web.Response:
        return json_reply(player_out(self._node.player(call.player_id).status()) | self._of_node)

    async def _delete(self, call: Call) -> web.Response:
        await self._node.delete_player(call.player_id, call.request.client)
        return no_content()

    async def _seek(self, call: Call) -> web.Response:
        body = await read_body(call.request, requests.PositionPatch)
        if len(body.model_fields_set) != 1:
            raise BadRequest("Send one of the fields `position` and `offset`, in ms.")
        player = self._node.player(call.player_id)
        if "position" in body.model_fields_set:
            player.seek(body.position)
        else:
            player.seek_by(body.offset)
        return no_content()

    async def _skip(self, call: Call) -> web.Response:
        async with self._node.changing_queue(call.player_id, SKIP_PATIENCE_S):
            target = await _skip_target(call.request)
            self._node.player(call.player_id).do(Requests.skip, target)
        return no_content()

    async def _replace(self, call: Call) -> web.Response:
        async with self._node.changing_queue(call.player_id):
            body = await read_body(call.request, requests.NewTrack)
            added = await self._node.replace_track(call.player_id, wanted_track(call, body))
        return json_reply(track_queued_out(added.ids, added.left_out, added.warnings), HTTPStatus.CREATED)

    async def _history(self, call: Call) -> web.StreamResponse:
        return await json_list_reply(call.request, map(played_track_out, self._node.player(call.player_id).history))

    async def _artwork(self, call: Call) -> web.Response:
        picture = await while_connected(call.request, self._node.artwork(call.player_id))
        return picture_reply(call.request, picture)

    async def _change_metadata(self, call: Call) -> web.Response:
        body = await read_body(call.request, requests.MetadataPatch)
        self._node.player(call.player_id).change_metadata(body.merge, body.value)
        return no_content()

    async def _filters(self, call: Call) -> web.Response:
        return json_reply(filters_out(self._node.player(call.player_id).status().filters))


class QueueRoutes(_PlayerHandlers):
    """The endpoints of queues. Requests that change a queue are done in the order in which they came."""

    def routes(self) -> Sequence[Route]:
        return (
            Route(operations.ADD_TRACKS, self._enqueue),
            Route(operations.LIST_QUEUE, self._queue),
            Route(operations.CLEAR_QUEUE, self._change_queue(lambda rules, _: rules.clear_queue())),
            Route(operations.SHUFFLE_QUEUE, self._change_queue(_shuffle)),
            Route(operations.MOVE_TRACK, self._move),
            Route(operations.REMOVE_TRACK, self._change_queue(lambda rules, call: rules.remove(call.track_id))),
        )

    async def _enqueue(self, call: Call) -> web.Response:
        async with self._node.changing_queue(call.player_id):
            value = await read_json(call.request)
            is_list = isinstance(value, dict) and "tracks" in value and "uri" not in value
            added = await (self._enqueue_all(call, value) if is_list else self._enqueue_one(call, value))
        return json_reply(
            track_queued_out(added.ids, added.left_out, added.warnings, is_list=is_list), HTTPStatus.CREATED
        )

    async def _enqueue_one(self, call: Call, value: Json) -> AddedTracks:
        body = as_model(call.request, value, requests.QueueEntry)
        wanted = wanted_track(call, body)
        return await self._node.enqueue(call.player_id, wanted, body.metadata, index=_index_of(body))

    async def _enqueue_all(self, call: Call, value: Json) -> AddedTracks:
        tracks = value.get("tracks") if isinstance(value, dict) else None
        if isinstance(tracks, list) and len(tracks) > requests.MAX_NEW_TRACKS:
            raise BodyTooLarge(f"`tracks` has {len(tracks)} entries. Send at most {requests.MAX_NEW_TRACKS} at once.")
        body = as_model(call.request, value, requests.QueueEntries)
        wanted = [wanted_track(call, track, f"tracks.{index}.") for index, track in enumerate(body.tracks)]
        return await self._node.enqueue_all(call.player_id, wanted, index=_index_of(body))

    async def _queue(self, call: Call) -> web.StreamResponse:
        target = call.target
        has_details = target.flag("details")
        first = read_whole_number(target, "offset", lowest=0, highest=MAX_OFFSET) or 0
        count = read_whole_number(target, "limit", lowest=1, highest=MAX_OFFSET) or MAX_OFFSET
        wait_ms = read_whole_number(target, "wait", lowest=0, highest=MAX_WAIT_MS)
        if wait_ms and has_details:
            known = self._node.queue_details_known(call.player_id, first, count, wait_ms / 1000)
            await while_connected(call.request, known)
        queue = self._node.player(call.player_id).queue
        etag = f'W/"{queue.life}.{queue.version}"'
        render = queued_track_details_out if has_details else queued_track_out
        return await json_list_reply(call.request, map(render, queue.tracks[first : first + count]), etag)

    async def _move(self, call: Call) -> web.Response:
        async with self._node.changing_queue(call.player_id):
            body = await read_body(call.request, requests.IndexPatch)
            self._node.player(call.player_id).do(Requests.move, call.track_id, body.index)
        return no_content()


def _shuffle(rules: Requests, _: Call) -> Outcome:
    return rules.shuffle(random.sample(range(rules.queue_length), rules.queue_length))


def wanted_track(
    call: Call, body: requests.NewTrack | requests.NewPlayer | requests.NewOverlay, place: str = ""
) -> WantedTrack:
    """The track in a body of the request. Raises `BadRequest` when the body names none."""
    given = body.model_fields_set
    if not given & {"uri", "encoded"}:
        raise BadRequest(f"The field `{place}uri` is missing; `{place}encoded` can take its place.")
    return WantedTrack(
        uri=body.uri if "uri" in given else None,
        metadata=body.metadata if isinstance(body, requests.NewTrack) else {},
        encoded=body.encoded if "encoded" in given else None,
        start_ms=body.start_ms if not isinstance(body, requests.NewPlayer) and "start_ms" in given else None,
        end_ms=body.end_ms if not isinstance(body, requests.NewPlayer) and "end_ms" in given else None,
        came_through_proxy=call.came_through_proxy,
    )


def _index_of(body: requests.QueueEntry | requests.QueueEntries) -> int | None:
    return body.index if "index" in body.model_fields_set else None


async def _skip_target(request: EdgeRequest) -> str | None:
    """The id of the track to skip to; None without a body, or when the body names no track."""
    try:
        return (await read_body(request, requests.SkipTarget)).to
    except (BadRequest, BodyTooLarge):
        return None

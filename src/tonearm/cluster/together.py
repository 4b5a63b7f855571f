"""Lists of the players of all nodes of a cluster, and their records."""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

import msgspec
from aiohttp import web
from msgspec.json import Decoder

from tonearm.cluster.moving import OnItsWay
from tonearm.cluster.nodes import Joined
from tonearm.core.player_status import PlayerStatus
from tonearm.core.snapshot import STATE_VERSION
from tonearm.node.node import Node
from tonearm.protocol.rendering import player_out
from tonearm.protocol.wire_model import json_text
from tonearm.server.http_server import EdgeRequest
from tonearm.server.records import record_slices
from tonearm.server.replies import SLICE_S, array_slices, object_slices, sliced_reply

_LISTED_TRIES: Final = 5
_LISTED_AFTER_S: Final = 0.05

log = logging.getLogger(__name__)


class _Named(msgspec.Struct):
    id: str


class _Records(msgspec.Struct):
    players: list[msgspec.Raw]


_Players: TypeAlias = Iterable[tuple[str, Iterator[bytes]]]  # the id of each, and its JSON in slices
_Read: TypeAlias = Callable[[bytes], Iterable[msgspec.Raw]]


class AllPlayers:
    """The players of all nodes, asked for at the node that `joined`. Those of this node include players on their way to
    another one, so that no list lacks them, however long the other node takes.

    Lists are made of the JSON of each player, which is not read: all records of a cluster may have many megabytes."""

    def __init__(self, joined: Joined, node: Node, on_their_way: Mapping[str, OnItsWay]) -> None:
        self._own, self._nodes, self._wall_ms = joined.own, joined, joined.wall_ms
        self._forwarding, self._ownership = joined.forwarding, joined.ownership
        self._node = node
        self._on_their_way = on_their_way

    async def states(self, request: EdgeRequest, *, of_all: bool) -> web.StreamResponse:
        """As `GET /v0/players`, of all nodes or of this one."""

        def own() -> _Players:
            for player in self._node.players():
                yield player.player_id, self._shown(player.status())
            for player_id, going in tuple(self._on_their_way.items()):
                yield player_id, self._shown(going.status)

        found = await self._listed("/v0/players", own, Decoder(list[msgspec.Raw]).decode, of_all=of_all)
        return await sliced_reply(request, array_slices(b"[", found.values(), b"]"))

    async def records(self, request: EdgeRequest, *, of_all: bool) -> web.StreamResponse:
        """As `GET /v0/state`, of all nodes or of this one."""

        def own() -> _Players:
            now_ms = self._wall_ms()
            for player in self._node.players():
                yield player.player_id, record_slices(player.record(), now_ms)
            for player_id, going in tuple(self._on_their_way.items()):
                yield player_id, record_slices(going.record, now_ms)

        decode = Decoder(_Records).decode
        found = await self._listed("/v0/state", own, lambda answer: decode(answer).players, of_all=of_all)
        return await sliced_reply(request, object_slices({"version": STATE_VERSION}, "players", found.values()))

    def _shown(self, status: PlayerStatus) -> Iterator[bytes]:
        yield json_text({**player_out(status), "node": self._own})

    async def ask_others(self, method: str, path: str) -> list[bytes]:
        """What the other living nodes answer; those that answer nothing are left out."""
        asked = [
            self._forwarding.while_alive(name, self._forwarding.ask(record.address, method, path))
            for name, record in self._nodes.living().items()
            if name != self._own
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        found: list[bytes] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                log.warning("a node of the cluster does not answer %s %s: %s", method, path, answer)
            else:
                found.append(answer)
        return found

    async def _listed(self, path: str, own: Callable[[], _Players], read: _Read, *, of_all: bool) -> dict[str, bytes]:
        """The JSON of each player, of this node's and of those that the others answer. A player that comes to a node
        after that has answered, and leaves another one before, is in no answer, so all are asked again while a player
        that has an owner is missing."""
        found: dict[str, bytes] = {}
        for _ in range(_LISTED_TRIES):
            answers = await self.ask_others("GET", path) if of_all else []
            found |= await _made(own(), _players_in(answers, read))
            if not of_all or all(
                self._ownership.players_of(name).keys() <= found.keys() for name in self._nodes.living()
            ):
                break
            await asyncio.sleep(_LISTED_AFTER_S)
        return found


async def _made(*players: _Players) -> dict[str, bytes]:
    """The JSON of each player, by its id. Of a player that is there twice the last counts."""
    found: dict[str, bytes] = {}
    ends_s = time.monotonic() + SLICE_S
    for player_id, slices in itertools.chain(*players):
        made: list[bytes] = []
        for part in slices:
            made.append(part)
            if time.monotonic() > ends_s:
                await asyncio.sleep(0)
                ends_s = time.monotonic() + SLICE_S
        found[player_id] = b"".join(made)
    return found


def _players_in(answers: Iterable[bytes], read: _Read) -> _Players:
    """The players in the answers of other nodes."""
    read_name = Decoder(_Named).decode
    for answer in answers:
        try:
            for player in read(answer):
                yield read_name(player).id, iter([bytes(player)])
        except msgspec.DecodeError as error:
            log.warning("a node of the cluster answers with something else than its players: %s", error)

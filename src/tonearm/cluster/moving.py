"""Gives players of this node to other nodes: one of them, or all when the node drains. What the other node does with a
player stands in `cluster`.
"""

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

import aiohttp

from tonearm.cluster.engine import EngineLost
from tonearm.cluster.engine_saving import record_of
from tonearm.cluster.nodes import Joined
from tonearm.cluster.ownership import RecordTooLarge
from tonearm.core.cluster import placed
from tonearm.core.errors import BadRequest, EngineGone, NodeUnreachable, PlayerNotFound, RequestError
from tonearm.core.player_status import PlayerStatus
from tonearm.core.snapshot import PlayerSnapshot
from tonearm.node.node import Node
from tonearm.player.player import Player

_AT_ONCE: Final = 4
GOES_ON_ELSEWHERE: Final = "The player goes on at another node; come back."
_WITHIN_S: Final = 5.0  # a node that takes no player in this time, as one that is stopped, does not get it

log = logging.getLogger(__name__)


class OnItsWay(NamedTuple):
    """A player that was given up here and may not be taken there yet."""

    status: PlayerStatus
    record: PlayerSnapshot


class Moving:
    """Moves `players`, which are those of `node`. This node must not take a player that is in `on_their_way`."""

    def __init__(self, joined: Joined, node: Node, players: Mapping[str, Player]) -> None:
        self._own, self._nodes, self._ownership = joined.own, joined, joined.ownership
        self._forwarding, self._wall_ms = joined.forwarding, joined.wall_ms
        self._node = node
        self._players = players
        self._moving_all: asyncio.Task[None] | None = None
        self.is_draining = self.is_leaving = False
        self.on_their_way: Final[dict[str, OnItsWay]] = {}

    async def leave(self, within_s: float) -> None:
        """Moves all players, as far as that goes in this time, and none afterwards."""
        self.is_draining = True
        try:
            async with asyncio.timeout(within_s):
                if self._moving_all is not None:  # a drain that began before
                    await asyncio.wait([self._moving_all])
                await asyncio.wait([self.all()])
        except TimeoutError:
            log.warning("%d players could not be moved in %g s; other nodes take them", len(self._players), within_s)
        finally:
            self.is_leaving = True
            await self.stop()

    def all(self) -> asyncio.Task[None]:
        """Moves each player to the less loaded of two nodes, while this one drains. A player that no node takes stays
        here. While players move already, this returns that task."""
        if self._moving_all is None or self._moving_all.done():
            self._moving_all = asyncio.create_task(self._move_all())
        return self._moving_all

    async def stop(self) -> None:
        if self._moving_all is not None:
            self._moving_all.cancel()
            await asyncio.wait([self._moving_all])

    async def _move_all(self) -> None:
        places = asyncio.Semaphore(_AT_ONCE)

        async def move(player_id: str) -> None:
            async with places:
                if self.is_leaving or not self.is_draining or player_id not in self._players:
                    return
                name = placed(self._nodes.living(), random.sample, avoided=[self._own])
                try:
                    if name is not None:
                        await self.one(player_id, name)
                except RequestError as error:
                    log.warning("player %s stays here: %s", player_id, error.message)

        await asyncio.gather(*map(move, tuple(self._players)))

    async def one(self, player_id: str, to: str) -> None:
        """Gives a player to the node `to`; the player stays here where that does not work. Raises `RequestError`."""
        if to == self._own:
            return
        living = self._nodes.living()
        if to not in living:
            raise BadRequest(f"There is no living node {to!r}. There are {', '.join(living)}.")
        if not self._nodes.membership.reaches:
            raise EngineGone("The cluster's engine is lost; nothing can be moved. Try again later.")
        player, epoch = self._players.get(player_id), self._ownership.epoch_of(player_id)
        if player is None or epoch is None:
            raise _not_here(player_id)
        try:
            if not await self._ownership.is_there(player_id):
                await self._ownership.write(player_id, await record_of(player.snapshot(), self._wall_ms()))
        except (EngineLost, RecordTooLarge) as error:
            raise EngineGone.of(error) from error
        if self._players.get(player_id) is not player or self._ownership.epoch_of(player_id) != epoch:
            raise _not_here(player_id)
        self.on_their_way[player_id] = OnItsWay(player.status(), player.record())
        try:
            await self._hand_over(player_id, epoch, to, living[to].address)
        finally:
            del self.on_their_way[player_id]

    async def _hand_over(self, player_id: str, epoch: int, to: str, address: str) -> None:
        """As `one`, for a player of this `epoch`, to the node at this address."""
        self._ownership.let_go(player_id)  # first: otherwise the player's end would be kept as its deletion
        snapshot = await self._node.give_up(player_id, GOES_ON_ELSEWHERE, "the cluster")
        record = await record_of(snapshot, self._wall_ms())
        try:
            own = quote(self._own, safe="")
            path = f"/v0/players/{quote(player_id, safe='')}/move?from={own}&epoch={epoch}"
            async with asyncio.timeout(_WITHIN_S):
                await self._forwarding.ask(address, "PUT", path, record)
        except (aiohttp.ClientError, OSError) as error:
            log.warning("player %s could not be moved to %s: %s", player_id, to, error)
            if self.is_leaving or not self._nodes.membership.may_play:
                raise NodeUnreachable(f"The node {to} did not take the player, and this one stops.") from error
            lapses = self._nodes.membership.lapses
            try:
                # With an epoch of its own, so that a node which wakes up late cannot take it any more.
                taken = await self._ownership.take(player_id, self._own, snapshot)
                owner = await self._ownership.owner_of(player_id, asks=True)
            except EngineLost as lost:
                raise EngineGone.of(lost) from lost
            if owner == to:  # it took the player late
                return
            if taken is None:
                raise _not_here(player_id) from error
            try:
                await self._node.take_over(snapshot, comes_back=True)
            except BaseException:
                self._ownership.let_go(player_id)  # a next turn finds it
                raise
            if not self._nodes.has_kept(player_id, lapses):
                self._ownership.let_go(player_id)
                await self._node.give_up(player_id, GOES_ON_ELSEWHERE, "the cluster")
            why = f" (it answered {error.status})" if isinstance(error, aiohttp.ClientResponseError) else ""
            raise NodeUnreachable(f"The node {to} did not take the player{why}; it goes on here.") from error


def _not_here(player_id: str) -> PlayerNotFound:
    return PlayerNotFound(f"The player {player_id!r} is not this node's any more.")

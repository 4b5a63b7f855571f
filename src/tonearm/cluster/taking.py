"""Takes players over: those of lost nodes, and those that other nodes give to this one. Gives up those that belong to
another node now. How this node gives its players away stands in `moving`.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping
from functools import partial
from typing import Any, Final

from tonearm.cluster.engine import EngineLost
from tonearm.cluster.engine_saving import read_record
from tonearm.cluster.moving import GOES_ON_ELSEWHERE, Moving
from tonearm.cluster.nodes import Joined
from tonearm.cluster.ownership import Owned, ReadRecord
from tonearm.core.cluster import Heirs
from tonearm.core.errors import BadRequest, EngineGone, NodeUnreachable, PlayerExists, RequestError
from tonearm.core.events import PlayerMoved
from tonearm.core.snapshot import PlayerSnapshot
from tonearm.node.node import Node
from tonearm.player.player import Player

_AT_ONCE: Final = 8
_TRY_AGAIN_S: Final = 5.0  # until this node tries again to take a player that it could not take
_SLICE_S: Final = 0.002  # of the loop's time at once

log = logging.getLogger(__name__)


class Taking:
    """Takes players for `node`, whose players are `players`."""

    def __init__(self, joined: Joined, node: Node, players: Mapping[str, Player], moving: Moving) -> None:
        self._joined = joined
        self._own, self._membership, self._ownership = joined.own, joined.membership, joined.ownership
        self._node = node
        self._players = players
        self._moving = moving
        self._heirs = Heirs([self._own])
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._on_their_way: set[str] = set()
        self._refused_until_s: dict[str, float] = {}  # players of lost nodes that this node could not take
        self._work: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        work = tuple(self._work)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)

    async def look_for_players(self) -> None:
        """Begins to take the players that belong to this node and are not here, and, unless this node drains, its share
        of the players of lost nodes. Thousands of players are assigned in slices, so that frames are sent in between.
        Players that are here and belong to another node are given up."""
        if self._moving.is_leaving:
            return
        for player_id in self._players:
            if self._ownership.epoch_of(player_id) is None:  # another node took it while this one restored it
                self.lost(player_id, "")
        now_s, members = time.monotonic(), self._membership.members
        # Forgets players that another node has taken since, and those that are gone.
        self._refused_until_s = {
            one: at_s for one, at_s in self._refused_until_s.items() if at_s > now_s - _TRY_AGAIN_S
        }
        for player_id, owned in self._ownership.players_of(self._own).items():
            if self._ownership.epoch_of(player_id) is None and player_id not in self._players:
                self._begin_taking(player_id, owned)
        lost = [name for name in self._ownership.nodes() if not members.is_alive(name, now_s)]
        if not lost or self._moving.is_draining:
            return
        if self._heirs.names != (names := tuple(members.heirs(now_s))):
            self._heirs = Heirs(names)
        players = {
            player_id: owned
            for name in lost
            for player_id, owned in self._ownership.players_of(name).items()
            # A node that wrote later may live: its own record may not have come yet.
            if owned.changed_s is None or owned.changed_s <= members.known_to_s
        }
        counts = {name: len(self._ownership.players_of(name)) for name in names}
        ends_s = now_s + _SLICE_S
        for player_id, heir in self._heirs.of(players, counts):
            if heir == self._own:
                self._begin_taking(player_id, players[player_id])
            if time.monotonic() > ends_s:
                await asyncio.sleep(0)
                ends_s = time.monotonic() + _SLICE_S

    def _begin_taking(self, player_id: str, owned: Owned) -> None:
        now_s = time.monotonic()
        is_moving = player_id in self._moving.on_their_way or player_id in self._on_their_way
        if not is_moving and now_s >= self._refused_until_s.get(player_id, now_s):
            self._on_their_way.add(player_id)
            passed_ms = None if owned.changed_s is None else round((now_s - owned.changed_s) * 1000)
            self._begin(self._take(player_id, owned.owner, owned.epoch, passed_ms))

    async def _take(self, player_id: str, owner: str, epoch: int, passed_ms: int | None) -> None:
        try:
            async with self._places:
                if not self._membership.may_play or self._node.find(player_id) is not None:
                    return
                try:
                    if await self._taken(player_id, owner, partial(read_record, passed_ms=passed_ms), epoch):
                        self._refused_until_s.pop(player_id, None)
                except RequestError as error:
                    if player_id not in self._refused_until_s:
                        log.error("player %s of the node %s cannot go on here: %s", player_id, owner, error.message)
                    self._refused_until_s[player_id] = time.monotonic() + _TRY_AGAIN_S
        except EngineLost as error:
            log.debug("player %s could not be taken over: %s", player_id, error)
        finally:
            self._on_their_way.discard(player_id)

    async def handed_over(self, player_id: str, record: bytes, owner: str, epoch: int) -> None:
        """Takes a player that the node `owner` had in this `epoch`, and gives to this node. Raises `RequestError`."""
        snapshot = await asyncio.to_thread(read_record, player_id, record)
        if snapshot is None:
            raise BadRequest("The record of the player cannot be read.")
        if not self._membership.may_play:
            raise NodeUnreachable("This node's lease has ended.")
        try:
            if not await self._taken(player_id, owner, snapshot, epoch):
                raise PlayerExists(f"The player {player_id!r} is not the node {owner}'s.")
        except EngineLost as error:
            raise EngineGone.of(error) from error

    async def _taken(self, player_id: str, owner: str, read: ReadRecord | PlayerSnapshot, epoch: int) -> bool:
        """Plays a player that `owner` had, and returns True; False where it is not the owner's. If this node refuses
        the player, `owner` gets it back. Raises what `take_over` raises, and `EngineLost`."""
        lapses = self._membership.lapses
        snapshot = await self._ownership.take(player_id, owner, read, epoch)
        if snapshot is None:
            return False
        try:
            if self._moving.is_leaving:
                raise NodeUnreachable("This node stops.")
            await self._node.take_over(snapshot, moved=PlayerMoved(owner, self._own))
        except BaseException:
            await self._ownership.hand_back(player_id, owner)
            raise
        if not self._joined.has_kept(player_id, lapses):
            self._ownership.let_go(player_id)
            await self._give_up(player_id, GOES_ON_ELSEWHERE)
        return True

    def fall_silent(self) -> None:
        """Stops sending when the lease has ended: other nodes may take the players now."""
        if not self._players:
            return
        log.error("this node's lease has ended; its %d players go on elsewhere, or here later", len(self._players))
        for player_id in tuple(self._players):
            self._ownership.let_go(player_id)
            self._begin(self._give_up(player_id, "The node lost touch with its cluster; come back."))

    def lost(self, player_id: str, owner: str) -> None:
        """Another node, `owner`, has taken a player of this node."""
        if player_id in self._players:
            log.warning("player %s now belongs to: %s", player_id, owner or "another owner")
            self._begin(self._give_up(player_id, GOES_ON_ELSEWHERE))

    async def _give_up(self, player_id: str, reason: str) -> None:
        if self._node.find(player_id) is not None:
            await self._node.give_up(player_id, reason, "the cluster")

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

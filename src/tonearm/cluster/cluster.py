"""One node's part in a cluster: it joins, keeps its lease, gives the engine all players again when the engine has lost
its data, drains and leaves. Its players come and go in `taking` and `moving`; requests are answered in `answers`.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import Final

from tonearm import VERSION
from tonearm.cluster.answers import Answers
from tonearm.cluster.engine import Engine, EngineLost, EngineRefused, EngineSettings
from tonearm.cluster.engine_saving import EngineSaving
from tonearm.cluster.forwarding import Forwarding
from tonearm.cluster.membership import Membership, NameTaken
from tonearm.cluster.moving import Moving
from tonearm.cluster.nodes import Joined
from tonearm.cluster.ownership import Ownership
from tonearm.cluster.taking import Taking
from tonearm.core.cluster import RENEW_EVERY_S, NodeRecord
from tonearm.core.errors import EngineGone
from tonearm.node.node import Node
from tonearm.player.player import Player

log = logging.getLogger(__name__)


class Cluster:
    """From `join` to `leave`. `attach` gives it the node."""

    def __init__(
        self,
        engine: EngineSettings,
        name: str,
        own: str,
        lease_s: float,
        password: str,
        wall_ms: Callable[[], int],
    ) -> None:
        self._own = own
        self._name = name
        self._lease_s = lease_s
        self._engine = Engine(engine)
        self._wall_ms = wall_ms
        self._forwarding = Forwarding(password, self._is_alive, wall_ms, lease_s)
        self._address = ""
        self._players: Mapping[str, Player] = {}
        self._saving: EngineSaving | None = None
        self._answers: Answers | None = None
        self._turning: asyncio.Task[None] | None = None
        self.ended: Final = asyncio.Event()  # set when another node has this node's name

    # From beginning to end

    async def join(self) -> str:
        """Joins the node to its cluster, or returns why it cannot join."""
        try:
            await self._join()
        except EngineRefused as error:
            return f"{error}; mend cluster.user, cluster.password_file or cluster.credentials_file"
        except EngineLost as error:
            return f"its engine is not there ({error}); start a NATS server with JetStream, or mend cluster.url"
        except NameTaken:
            return f"a living node is called {self._own} already; set cluster.node to another name"
        self._turning = asyncio.create_task(self._run())
        return ""

    async def _join(self) -> None:
        await self._engine.connect()
        try:
            nodes = await self._engine.bucket(f"ta_{self._name}_nodes")
            players = await self._engine.bucket(f"ta_{self._name}_players")
            self._membership = Membership(
                nodes,
                self._own,
                self._lease_s,
                self._own_record,
                self._forwarding.reaches_engine,
                self._wall_ms,
            )
            self._ownership = Ownership(players, self._own, self._engine.largest_bytes)
            await self._membership.join()
        except BaseException:
            await self._engine.close()
            raise

    def saving(self, players: dict[str, Player]) -> EngineSaving:
        """The saving of the node's players."""
        self._players = players
        last_alive_ms = self._membership.last_alive_ms
        self._saving = EngineSaving(self._ownership, players, self._wall_ms, last_alive_ms)
        return self._saving

    def attach(self, node: Node, allow: Callable[[float], None]) -> Answers:
        """`allow` takes until when the node may play. Returns what answers the node's requests."""
        joined = Joined(self._own, self._engine, self._membership, self._ownership, self._forwarding, self._wall_ms)
        moving = Moving(joined, node, self._players)
        taking = Taking(joined, node, self._players, moving)
        self._membership.allowed, self._membership.lapsed, self._ownership.lost = allow, taking.fall_silent, taking.lost
        allow(self._membership.lease.plays_until_s)
        self._answers = Answers(joined, self._name, node, moving, taking)
        return self._answers

    def listens_at(self, address: str) -> None:
        """Sets the address at which the node answers. Other nodes learn it with the next turn."""
        self._address = address

    async def drain(self, within_s: float) -> None:
        """Moves all players to other nodes, as far as that goes in this time."""
        if self._answers is not None:
            await self._answers.moving.leave(within_s)

    async def leave(self) -> None:
        """To be called when the node has stopped."""
        if self._turning is not None:
            self._turning.cancel()
            await asyncio.wait([self._turning])
        self._membership.allowed(-math.inf)  # no frame from now on, also of a node that could not stop in time
        if self._answers is not None:
            await self._answers.taking.stop()
            await self._answers.moving.stop()
            self._answers.close()
        await self._membership.leave()
        await self._forwarding.close()
        await self._engine.close()

    # Once a second

    async def _run(self) -> None:
        while True:
            begun_s = time.monotonic()
            try:
                await self._membership.turn()
                await self._look_around()
            except NameTaken:
                log.critical("another node of the cluster is called %s; this one stops", self._own)
                self._membership.lapse()
                self.ended.set()
                return
            except EngineLost as error:
                log.debug("the cluster's engine: %s", error)
            except Exception:
                log.exception("a turn of the cluster failed")
            await asyncio.sleep(max(0.05, RENEW_EVERY_S - (time.monotonic() - begun_s)))

    async def _look_around(self) -> None:
        """Looks for players that no node has, and moves players away while this node drains."""
        answers = self._answers
        if self._membership.reaches:
            if self._saving is not None:
                for player_id in self._ownership.unwritten():
                    if player_id in self._players:  # else it is not there yet, or no more
                        self._saving.changed(player_id)
            if answers is not None and self._ownership.is_watching and self._address:
                await answers.taking.look_for_players()
                await self._membership.forget_lost(self._ownership.nodes())
        if answers is not None and answers.moving.is_draining and self._players:
            answers.moving.all()

    def _is_alive(self, name: str) -> bool:
        return self._membership.members.is_alive(name, time.monotonic())

    def _own_record(self) -> NodeRecord:
        if self._answers is None:
            return NodeRecord(self._address, VERSION)
        load, is_draining = self._answers.node.load, self._answers.moving.is_draining
        return NodeRecord(self._address, VERSION, len(self._players), load, is_draining)

    # As `node.parts.Claims`

    async def claim(self, player_id: str) -> bool:
        assert self._saving is not None, "a node has its saving first"
        try:
            return await self._saving.claim(player_id)
        except EngineLost as error:
            raise EngineGone.of(error) from error

    async def unclaim(self, player_id: str) -> None:
        try:
            await self._ownership.remove(player_id)
        except EngineLost as error:
            log.warning("the id %s stays reserved: the cluster's engine cannot be reached: %s", player_id, error)

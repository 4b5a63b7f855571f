"""Players over restarts of the node, in order and by kill -9, and from one node to another."""

import asyncio
import contextlib
import os
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.support.audio_files import tone, wav
from tests.support.command import run_tonearm
from tests.support.e2e_players import create, delete, enqueue, order, patch, refusal, state, until_state
from tests.support.e2e_sockets import following, listening
from tests.support.eventually import Changes, eventually
from tests.support.examples import SEED
from tests.support.http_client import Answer
from tests.support.processes import is_alive
from tests.support.running_node import RunningNode, running_node, start_node

CONFIG = '[state]\npath = "state.sqlite"\n[player]\nfirst_listener_wait_ms = 0\n'
KILLS = int(os.environ.get("FUZZ_KILLS") or 3)


@asynccontextmanager
async def killed_node(folder: Path) -> AsyncIterator[RunningNode]:
    """A node that ends by SIGKILL, which no process of it outlives."""
    node = await asyncio.to_thread(start_node, folder, CONFIG)
    try:
        yield node
        processes = node.template_pids() | node.decoder_pids()
    finally:
        await asyncio.to_thread(node.kill)
    await eventually(lambda: not any(map(is_alive, processes)), "all are gone")


async def record(node: RunningNode, player: str) -> Any:
    answer = await node.request("GET", f"/v0/players/{player}/state")
    assert answer.status == 200
    return answer.json()


async def test_a_killed_node_has_its_players_again_where_they_would_be(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(wav(tone(440, 60.0)))
    async with killed_node(tmp_path) as node:
        await create(node, "p", "song.wav", metadata={"room": 7})
        await create(node, "paused", "song.wav", paused=True)
        await create(node, "gone", "song.wav")
        waiting = [await enqueue(node, "p", "next.wav", {"number": number}) for number in range(3)]
        await patch(node, "p", "loop", {"mode": "queue"})
        await patch(node, "p", "filters", {"volume": 0.5, "lowPass": {"smoothing": 5.0}})
        await patch(node, "p", "crossfade", {"durationMs": 300})
        await delete(node, "gone")
        await until_state(node, "p", lambda now: now["state"] == "playing")
        assert len(node.template_pids() | await node.decoders_ready(2)) >= 3
        assert (await node.request("PATCH", "/v0/players/p/position", {"position": 20_000})).status == 204
        before = await until_state(node, "p", lambda now: now["position"] > 20_500)
        seen_s = time.monotonic()
    killed_s = time.monotonic()
    async with running_node(tmp_path, CONFIG) as node:
        assert (await node.request("GET", "/readyz")).json() == {"status": "ready"}
        assert [one["id"] for one in (await node.request("GET", "/v0/players")).json()] == ["p", "paused"]
        after = await until_state(node, "p", lambda now: now["state"] == "playing")
        passed_s, until_kill_s = time.monotonic() - seen_s, killed_s - seen_s
        assert -50 + until_kill_s * 1000 <= after["position"] - before["position"] <= passed_s * 1000 + 1000
        same = ("trackId", "metadata", "loop", "volume", "lowPass", "crossfade", "queueLength", "paused")
        assert {name: after[name] for name in same} == {name: before[name] for name in same}
        assert (after["loop"], after["volume"], after["queueLength"]) == ("queue", 0.5, 3)
        assert after["life"] != before["life"]
        queue = (await node.request("GET", "/v0/players/p/queue")).json()
        assert [(track["id"], track["metadata"]) for track in queue] == [
            (track_id, {"number": number}) for number, track_id in enumerate(waiting)
        ]
        assert (await state(node, "paused"))["paused"]
        async with listening(node, "p") as ear:
            await ear.frames_heard(20)
        async with following(node, "p", f"?since={before['life']}.{before['seq']}") as tape:
            told = await tape.until("PlayerState")
            assert told["lost"] is True
            assert told["life"] == after["life"]


async def test_players_wait_in_pause_where_that_is_configured_and_a_later_policy_holds(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(wav(tone(440, 60.0)))
    async with running_node(tmp_path, CONFIG) as node:
        await create(node, "p", "song.wav")
        await until_state(node, "p", lambda now: now["state"] == "playing")
    paused = CONFIG.replace("[state]", '[state]\nresume = "paused"')
    async with running_node(tmp_path, f"{paused}[sources]\nfiles = false\n") as node:
        assert (await state(node, "p"))["paused"]
        await order(node, "p", "play")
        now = await until_state(node, "p", lambda now: now["state"] == "idle")
        assert now["error"]["code"] == "source_refused"


async def test_players_go_from_one_node_to_another_by_a_file_and_none_that_can_be_no_player(node: RunningNode) -> None:
    (node.folder / "song.wav").write_bytes(wav(tone(440, 60.0)))

    async def tonearm(*arguments: str) -> tuple[int, str]:
        done = await asyncio.to_thread(run_tonearm, *arguments, "--url", node.url, folder=node.folder)
        return done.returncode, done.stderr

    for name in ("one", "two"):
        await create(node, name, "song.wav", paused=True, metadata={"name": name})
    before = [await record(node, name) for name in ("one", "two")]
    assert await tonearm("export", "-o", "players.json") == (0, "Players written to players.json: 2.\n")
    for name in ("one", "two"):
        await delete(node, name)
    assert await tonearm("import", "players.json") == (0, f"2 of 2 players were imported into {node.url}.\n")
    for old in before:
        now = await record(node, old["id"])
        assert all(now[what] == old[what] for what in ("current", "paused", "metadata"))
    for arguments, words in ((("export", "nobody"), "no player"), (("import", "song.wav"), "tonearm export")):
        code, told = await tonearm(*arguments)
        assert (code, words in told) == (1, True)
    for changes, words in (
        ({"current": None}, "name a track"),
        ({"queue": ["nowhere"]}, "not in `tracks`"),
        ({"position": -1}, "position"),
        ({"filters": {"volume": 9}}, "volume"),
        ({"tracks": [{**before[0]["tracks"][0], "uri": "ftp://radio.example/"}]}, "scheme"),
        ({"metadata": "x" * 70_000}, "metadata"),
    ):
        answer = await node.request("PUT", "/v0/players/q/state", {**before[0], **changes})
        assert refusal(answer) == (400, "bad_request")
        assert words in answer.json()["message"]


@dataclass
class Acknowledged:
    """What a node said yes to: the queues and settings of players, and which are deleted."""

    queues: dict[str, list[str]] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: dict[str, tuple[str, Any]] = field(default_factory=dict)  # a setting of each player, without an answer yet
    deleted: set[str] = field(default_factory=set)
    changes: int = 0
    more: Changes = field(default_factory=Changes)

    async def require(self, node: RunningNode) -> None:
        """All of it is there. Of what got no answer, the last change of each player may be there, or not."""
        there = {player["id"]: player for player in (await node.request("GET", "/v0/state")).json()["players"]}
        assert not self.deleted & there.keys()
        for name, track_ids in self.queues.items():
            queue = there[name]["queue"]
            assert queue[: len(track_ids)] == track_ids
            assert len(queue) <= len(track_ids) + 1
            track_ids[:] = queue
            now = {**there[name], "filters": there[name]["filters"]["volume"]}
            asked = self.asked.pop(name, None)
            for what, value in self.settings[name].items():
                assert now[what] == value or (what, now[what]) == asked, (what, now[what], value, asked)
            self.settings[name] = {what: now[what] for what in self.settings[name]}

    async def write(self, node: RunningNode, name: str) -> None:
        """Creates players and fills their queues until the node is gone; others are deleted meanwhile. What an answer
        calls unsaved may be there or not, so another player is begun then."""
        with contextlib.suppress(OSError, EOFError):
            for number in count():
                await self._fill(node, f"{name}-{number}")

    async def _fill(self, node: RunningNode, name: str) -> None:
        self.settings[name] = {"paused": True}
        answer = await node.request("POST", "/v0/players", {"id": name, "uri": "song.wav", "paused": True})
        while self._is_saved(answer) and await self._set(node, name):
            queue = self.queues.setdefault(name, [])
            queue += [answer.json()["trackId"]] if "trackId" in answer.json() else []
            if len(self.queues) > 6:
                oldest = next(iter(self.queues))
                del self.queues[oldest]  # whether it is deleted or not, when there is no answer
                if self._is_saved(await node.request("DELETE", f"/v0/players/{oldest}")):
                    self.deleted.add(oldest)
            answer = await node.request("POST", f"/v0/players/{name}/queue", {"uri": "song.wav"})
        for known in (self.queues, self.settings, self.asked):
            known.pop(name, None)

    async def _set(self, node: RunningNode, name: str) -> bool:
        """Changes one of its settings. Returns whether that is saved."""
        number = self.changes
        what, field_name, value = (
            ("loop", "mode", ("none", "track", "queue")[number // 4 % 3]),
            ("filters", "volume", number % 100 / 50),
            ("metadata", "value", {"number": number}),
        )[number % 3]
        self.asked[name] = what, value
        is_saved = self._is_saved(await node.request("PATCH", f"/v0/players/{name}/{what}", {field_name: value}))
        if is_saved:
            del self.asked[name]
            self.settings[name][what] = value
        return is_saved

    def _is_saved(self, answer: Answer) -> bool:
        assert answer.status in (201, 204), answer.body
        is_saved = answer.header("Tonearm-Unsaved") is None
        self.changes += is_saved
        self.more.tell()
        return is_saved


async def test_nothing_that_was_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    """Clients change players as fast as they can until the node is killed; the next one has what they were told."""
    (tmp_path / "song.wav").write_bytes(wav(tone(440, 60.0)))
    dice, told = random.Random(SEED), Acknowledged()
    sys.stdout.write(f"The same kills again: FUZZ_SEED={SEED} FUZZ_KILLS={KILLS}\n")
    for number in range(KILLS):
        async with killed_node(tmp_path) as node:
            await told.require(node)
            enough = told.changes + dice.randint(1, 60)
            writers = [asyncio.create_task(told.write(node, f"r{number}-{one}")) for one in range(3)]
            done = asyncio.create_task(told.more.until(lambda: told.changes >= enough, "changes are saved"))  # noqa: B023
            await asyncio.wait([*writers, done], return_when=asyncio.FIRST_COMPLETED)
            await asyncio.to_thread(node.kill)
            await asyncio.gather(*writers, done)
    async with running_node(tmp_path, CONFIG) as node:
        await told.require(node)
    sys.stdout.write(f"{KILLS} kills; {told.changes} changes acknowledged\n")

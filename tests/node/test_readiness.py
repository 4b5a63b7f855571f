"""What an overloaded node says of itself at its edge, in `/readyz` and figures, and players that wait for memory."""

import asyncio
import logging
import math
import os
import signal
from typing import Any

import pytest

from tests.support.audio_files import mp3, music
from tests.support.decoder_forks import QuickStarts
from tests.support.edge import running_edge
from tests.support.eventually import eventually
from tests.support.hand_time import HandTime
from tests.support.http_client import Answer, request
from tests.support.memory_for_sessions import MemoryForSessions
from tests.support.node_in_process import Listening, listening, running_node, spare_ready, with_pool
from tests.support.sandboxing import SANDBOX
from tests.support.shelf import Shelf
from tonearm.core.opened_source import OPENING
from tonearm.decoder.opening.source_feed import DECODER_BUSY
from tonearm.decoder.opening.source_input import NODE_BUSY, WAITING_FOR_PROCESS
from tonearm.decoder.pool.overload import LOGGED_AFTER_S
from tonearm.decoder.pool.starting import DirectStarter
from tonearm.node.node import LATE_FOR_S, PLAYERS_A_SLICE
from tonearm.node.parts import NodeSettings
from tonearm.player.clock import Clock


def refusal(answer: Answer) -> str:
    """The reason of an edge that is not ready."""
    assert (answer.status, answer.json()["code"]) == (503, "not_ready")
    reason: str = answer.json()["message"]
    return reason


async def figures(port: int) -> tuple[Any, list[str]]:
    """The figures for clients, and the lines of those for Prometheus."""
    stats, metrics = await request(port, "GET", "/v0/stats"), await request(port, "GET", "/metrics")
    return stats.json(), metrics.body.decode().splitlines()


async def test_the_figures_tell_for_how_long_the_machine_slept() -> None:
    slept_s = 100.0  # before the node was started
    async with running_node(parts={"suspended_s": lambda: slept_s}) as node, running_edge(node) as port:
        assert (await figures(port))[0]["suspendedMs"] < 1000
        slept_s = 8100.0
        told_ms = (await figures(port))[0]["suspendedMs"]
        assert told_ms == pytest.approx(8_000_000, abs=1000)
        slept_s = 8099.0  # the two clocks are not read at one moment
        stats, metrics = await figures(port)
        assert stats["suspendedMs"] == told_ms
        [told] = [line.split()[1] for line in metrics if line.startswith("tonearm_suspended_seconds_total ")]
        assert float(told) * 1000 == pytest.approx(told_ms, abs=1)


class NeverLate(Clock):
    """A slow machine may leave frames out, which is not asked here."""

    quiet_s = math.inf


async def test_a_full_node_is_not_ready_and_shows_since_when_and_how_many_players_wait(shelf: Shelf) -> None:
    uri, _ = shelf.song(30.0)
    time, memory = HandTime(), MemoryForSessions()
    parts = {"clock": NeverLate(), **with_pool(capacity=memory.capacity, now_s=time.now_s)}
    async with running_node(parts=parts) as node, running_edge(node) as port:

        async def shows(overload_ms: int, waiting: int) -> None:
            stats, metrics = await figures(port)
            assert (stats["overloadMs"], stats["playersWaiting"]) == (overload_ms, waiting)
            assert f"tonearm_overload_seconds {overload_ms / 1000}" in metrics
            assert f"tonearm_players_waiting {float(waiting)}" in metrics

        playing = await listening(node, "playing", uri)
        await playing.listener.wait_frames(1)
        memory.most = 0
        waiting = [await listening(node, f"waiting{number}", uri) for number in range(2)]
        await eventually(lambda: all(player.quality["waitingForRoomMs"] is not None for player in waiting), "both")
        # Players that begin together wait for a moment, which is no overload.
        assert (await request(port, "GET", "/readyz")).status == 200
        await shows(0, 2)
        time.forward(LOGGED_AFTER_S)
        await eventually(lambda: node.unreadiness(), "the processes' next report")
        time.forward(70.0 - LOGGED_AFTER_S)
        assert "for 70 s: 2 players wait for room" in refusal(await request(port, "GET", "/readyz"))
        await shows(70_000, 2)
        memory.most = math.inf
        for player in waiting:
            await player.listener.wait_frames(1)
        await eventually(lambda: not node.unreadiness(), "the overload has passed")
        assert (await request(port, "GET", "/readyz")).status == 200
        await shows(0, 0)


async def test_a_node_without_a_decoder_process_is_not_ready_until_there_is_one() -> None:
    start = QuickStarts()
    starter = DirectStarter(NodeSettings().decoder_memory_limit_mb, SANDBOX, start)
    async with running_node(parts=with_pool(starter=starter)) as node, running_edge(node) as port:
        await spare_ready(node)
        start.interpreter = "/nonexistent/python"
        for process_id in node._pool.process_ids:
            os.kill(process_id, signal.SIGKILL)
        await eventually(lambda: node.unreadiness(), "both are gone")
        assert "No decoder process is ready" in refusal(await request(port, "GET", "/readyz"))
        start.interpreter = None
        await eventually(lambda: not node.unreadiness(), "another is ready")
        assert (await request(port, "GET", "/readyz")).json() == {"status": "ready"}


async def test_a_node_that_left_frames_out_is_not_ready_for_ten_seconds(shelf: Shelf) -> None:
    hand_time = HandTime()
    clock = Clock(hand_time.now_s, hand_time.call_later)
    async with running_node(parts={"clock": clock}) as node, running_edge(node) as port:
        await listening(node, "p", shelf.song(30.0)[0])
        await eventually(lambda: not clock.is_idle, "it ticks")
        hand_time.stand_still(1.0)
        hand_time.forward(0.0)
        hand_time.forward(LATE_FOR_S - 1.0)
        assert "Frames were dropped 9 s ago" in refusal(await request(port, "GET", "/readyz"))
        hand_time.forward(1.0)
        assert (await request(port, "GET", "/readyz")).json() == {"status": "ready"}


async def test_figures_do_not_fall_when_a_player_is_deleted_while_they_are_taken(shelf: Shelf) -> None:
    uri, _ = shelf.song(30.0)
    async with running_node() as node:
        for number in range(PLAYERS_A_SLICE):
            await node.create_player(f"idle{number}", None, {})
        playing = await listening(node, "playing", uri)
        await playing.listener.wait_frames(50)
        taking = asyncio.create_task(node.figures())
        await asyncio.sleep(0)
        await node.delete_player("playing")
        assert (await taking).totals.frames_sent >= 50


LIMIT_MB = 336  # some 244 are taken before anybody plays, and each player takes 1.8
PLAYERS = 60


def plays_or_says_why(player: Listening) -> bool:
    return player.state["state"] != "loading" or bool(player.events.named("TrackStuck"))


def those_who_play(players: list[Listening]) -> list[Listening]:
    return [player for player in players if player.state["state"] == "playing"]


async def test_players_wait_where_there_is_no_memory_and_get_their_turn(
    shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    uri = shelf.put("song.mp3", mp3(music(30.0)))
    settings = NodeSettings(decoder_processes=1, decoder_memory_limit_mb=LIMIT_MB, start_timeout_s=1.5)
    async with running_node(settings) as node:
        with caplog.at_level(logging.ERROR):
            players = [await listening(node, f"p{number}", uri) for number in range(PLAYERS)]
            await players[0].listener.wait_frames(150)
        await eventually(lambda: len(those_who_play(players)) >= 15, "those for whom there is room play")
        playing = those_who_play(players)
        waiting = [player for player in players if player.quality["waitingForRoomMs"]]
        assert not caplog.text, "no process has ended"
        assert [player.failures for player in players] == [[]] * PLAYERS
        assert waiting
        # Behind all of these: one that was let in may have said before it was sent away that its process is busy, and
        # says nothing more then.
        late = await listening(node, "late", uri)
        # One that was sent away only now says so after its patience, unless it plays by then.
        await eventually(lambda: all(map(plays_or_says_why, [*waiting, late])), "those who wait say why")
        told = {event["cause"] for player in (*waiting, late) for event in player.events.named("TrackStuck")}
        # On a busy machine one that has got its room may wait for its process, too, or for its file.
        assert told <= {wait.cause for wait in (NODE_BUSY, OPENING, WAITING_FOR_PROCESS, DECODER_BUSY)}
        assert NODE_BUSY.cause in told
        for player in playing:
            if player not in waiting:
                await node.delete_player(player.id)
        await waiting[0].listener.wait_frames(10)

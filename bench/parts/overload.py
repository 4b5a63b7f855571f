"""More load than the node can carry: many players without listeners, too many listeners, the memory afterwards, and one
station that many players play.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aiohttp import web

from bench import media, processes
from bench.order_pipe import OrderPipe, order_pipe
from bench.parts.capacity import capacity, capacity_name
from bench.plan import MAIN_FORMAT, Run
from bench.spread import percentile
from bench.streaming import Streaming, streaming
from bench.subjects import HOST, Subject, tonearm_node
from tonearm.core.frame import FRAME_S

CROWD: Final = 1500
TOO_MANY: Final = 1.6  # times what the node carries
LEFT: Final = 0.6  # of what the node carries
STATION_PLAYERS: Final = 300
CROWD_LIMIT_S: Final = 200.0  # then it is taken for one that never comes to rest
_GUESTS: Final = 10  # listeners who come to players of the crowd
_GUEST_EVERY_S: Final = 0.5
_LOOK_EVERY_S: Final = 1.0
_AT_REST_CORES: Final = 0.25  # the guests' players, the timers of all others, and this bench's questions
_CREATED_AT_ONCE: Final = 25
_FREED_AFTER_S: Final = 30.0
_STATION_AHEAD_S: Final = 4.0
_STATION_STEP_S: Final = 0.25


async def overload(run: Run) -> None:
    await _crowd(run)
    await capacity(run, MAIN_FORMAT, "flat")
    carried = int(run.figures.last(capacity_name(MAIN_FORMAT, "flat")) or 0)
    fresh_mb = await _fresh(run, round(LEFT * carried))
    await _too_many(run, carried, fresh_mb)
    for is_shared in (False, True):
        await _station(run, is_shared=is_shared)


async def _crowd(run: Run) -> None:
    """So many players are created as fast as the node answers, and nobody listens but a few guests meanwhile."""
    uri, figures = str(media.make_bare_mp3(run.folder)), run.figures
    async with streaming(tonearm_node(run.folder), uri) as node, order_pipe("bench.listeners") as guests:
        answers_ms: list[float] = []
        asking = asyncio.create_task(_ask(node, answers_ms))
        visiting = asyncio.create_task(_visit(node.subject, guests))
        begun_s = time.monotonic()
        await _create(node, range(CROWD), uri)
        figures.add("overload/crowd/created_s", time.monotonic() - begun_s)
        figures.add("overload/crowd/at_rest_s", await _rest(node.subject, begun_s))
        waits_ms = await visiting
        asking.cancel()
        figures.add("overload/crowd/answer_p50_ms", percentile(answers_ms, 50))
        figures.add("overload/crowd/answer_longest_ms", max(answers_ms))
        figures.add("overload/crowd/guest_p50_ms", percentile(waits_ms, 50))
        figures.add("overload/crowd/guest_longest_ms", max(waits_ms))
        for state, count in (await _states(node)).items():
            figures.add(f"overload/crowd/{state}/players", count)
        figures.add("overload/crowd/decoders_mb", _decoders_mb(node.subject))


async def _fresh(run: Run, players: int) -> float:
    """The memory of the decoder processes of a node that never had more than so many players, in MB."""
    async with streaming(tonearm_node(run.folder), run.uri(MAIN_FORMAT)) as node:
        await node.grow_to(players)
        await asyncio.sleep(run.plan.seconds)
        fresh_mb = _decoders_mb(node.subject)
        run.figures.add("overload/fresh/decoders_mb", fresh_mb)
        return fresh_mb


async def _too_many(run: Run, carried: int, fresh_mb: float) -> None:
    """`TOO_MANY` times what the node carries, all listened to; then only `LEFT` times it are left."""
    figures, seconds = run.figures, max(10.0, run.plan.seconds)
    many, left = round(TOO_MANY * carried), round(LEFT * carried)
    async with streaming(tonearm_node(run.folder), run.uri(MAIN_FORMAT)) as node:
        await node.grow_to(many)
        window = await node.window(seconds)
        figures.add("overload/too_many/players", many)
        figures.add("overload/too_many/whole/players", window.evenness.whole)
        figures.add("overload/too_many/whole_of_carried", window.evenness.whole / carried)
        figures.add("overload/too_many/frames_of_carried", window.evenness.frames / (carried * seconds / FRAME_S))
        figures.add("overload/too_many/decoders_mb", _decoders_mb(node.subject))
        for number in range(left, many):
            async with node.session.delete(f"{node.subject.url}/v0/players/p{number}") as answer:
                await answer.read()
        begun_s = time.monotonic()
        while (await node.window(1.0)).evenness.whole < left and time.monotonic() - begun_s < _FREED_AFTER_S:
            pass
        figures.add("overload/too_many/recovered_s", time.monotonic() - begun_s)
        await asyncio.sleep(max(0.0, begun_s + _FREED_AFTER_S - time.monotonic()))
        left_mb = _decoders_mb(node.subject)
        figures.add("overload/left/decoders_mb", left_mb)
        figures.add("overload/left/times_fresh", left_mb / fresh_mb)


async def _station(run: Run, *, is_shared: bool) -> None:
    """One live stream for all players, or one for each."""
    name = "shared" if is_shared else "single"
    async with (
        _radio(media.make_file(run.folder, MAIN_FORMAT)) as radio,
        streaming(tonearm_node(run.folder), radio.url) as node,
    ):
        for number in range(STATION_PLAYERS):
            uri = radio.url if is_shared else f"{radio.url}?listener={number}"
            await node.subject.add(node.session, f"p{number}", uri, bands=False)
        await node.listen_to(range(STATION_PLAYERS))
        await asyncio.sleep(3 * run.plan.seconds)
        window = await node.window(max(10.0, run.plan.seconds))
        run.figures.add(f"overload/station_{name}/us_a_frame", window.us_a_frame)
        run.figures.add(f"overload/station_{name}/whole/players", window.evenness.whole)
        run.figures.add(f"overload/station_{name}/connections", radio.connections)
        run.figures.add(f"overload/station_{name}/pss_mb", node.subject.pss_mb())


async def _create(node: Streaming, numbers: range, uri: str) -> None:
    for first in range(numbers.start, numbers.stop, _CREATED_AT_ONCE):
        more = range(first, min(numbers.stop, first + _CREATED_AT_ONCE))
        adding = (node.subject.add(node.session, f"p{number}", uri, bands=False) for number in more)
        await asyncio.gather(*adding)


async def _ask(node: Streaming, answers_ms: list[float]) -> None:
    """Times small requests, until it is cancelled."""
    while True:
        begun_s = time.monotonic()
        async with node.session.get(f"{node.subject.url}/version") as answer:
            await answer.read()
        answers_ms.append((time.monotonic() - begun_s) * 1000)
        await asyncio.sleep(0.02)


async def _visit(subject: Subject, guests: OrderPipe) -> list[float]:
    """How long guests wait for their first frame, who come one by one to players that were created before."""
    waits_ms = []
    for number in range(_GUESTS):
        await asyncio.sleep(_GUEST_EVERY_S)
        path = subject.path(f"p{20 * number}")
        begun_s = time.monotonic()
        await guests.order(do="listen", host=HOST, port=subject.port, paths=[path], is_opus=False)
        await guests.order(do="hear_all", limit_s=20.0)
        waits_ms.append((time.monotonic() - begun_s) * 1000)
    return waits_ms


async def _rest(subject: Subject, begun_s: float) -> float:
    """Waits until the node has nothing to do. Returns when that was, counted from `begun_s`."""
    while time.monotonic() - begun_s < CROWD_LIMIT_S:
        before_s, at_s = subject.cpu_s(), time.monotonic()
        await asyncio.sleep(_LOOK_EVERY_S)
        if (subject.cpu_s() - before_s) / (time.monotonic() - at_s) < _AT_REST_CORES:
            return at_s - begun_s
    return CROWD_LIMIT_S


async def _states(node: Streaming) -> dict[str, int]:
    found = {"playing": 0, "loading": 0, "failed": 0, "idle": 0}
    for number in range(CROWD):
        async with node.session.get(f"{node.subject.url}/v0/players/p{number}") as answer:
            found[(await answer.json())["state"]] += 1
    return found


def _decoders_mb(subject: Subject) -> float:
    """PSS of the processes below the node's own."""
    return processes.pss_mb(subject.pid) - processes.pss_mb_of(subject.pid)


class _Radio:
    """A live MP3 stream that gives `_STATION_AHEAD_S` at once and then goes by the clock."""

    def __init__(self, sound: bytes, bytes_a_second: float) -> None:
        self.url = ""
        self.connections = 0
        self._sound = sound
        self._bytes_a_second = bytes_a_second

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.connections += 1
        response = web.StreamResponse(headers={"Content-Type": "audio/mpeg", "icy-name": "bench"})
        await response.prepare(request)
        begun_s, sent = time.monotonic() - _STATION_AHEAD_S, 0
        while True:
            due = int((time.monotonic() - begun_s) * self._bytes_a_second)
            while sent < due:
                at = sent % len(self._sound)
                part = self._sound[at : at + due - sent]
                await response.write(part)
                sent += len(part)
            await asyncio.sleep(_STATION_STEP_S)


@asynccontextmanager
async def _radio(path: Path) -> AsyncIterator[_Radio]:
    sound = path.read_bytes()
    radio = _Radio(sound, len(sound) / media.LENGTH_S)
    runner = web.ServerRunner(web.Server(radio.answer))
    await runner.setup()
    site = web.TCPSite(runner, HOST, 0, shutdown_timeout=0.1)
    await site.start()
    radio.url = f"http://{HOST}:{runner.addresses[0][1]}/radio"
    try:
        yield radio
    finally:
        await runner.cleanup()

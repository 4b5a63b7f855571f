"""Sleeping players without listeners: the cost of a frame, and of a change of track, with short and long tracks."""

import asyncio
from functools import partial
from typing import Final

from bench import media
from bench.plan import MAIN_FORMAT, Run
from bench.streaming import streaming
from bench.subjects import tonearm_node

PLAYERS: Final = 100
SHORT_TRACK_S: Final = 12
ADDING_S: Final = 8.0  # evenly, so that turns do not come all at once and find warm caches
FALL_ASLEEP_S: Final = 4.0
ASLEEP_S: Final = 10.0  # a PlayerUpdate each 5 s is part of it
SONG_S: Final = 180
_FRAMES_A_SECOND: Final = 50


async def sleep(run: Run) -> None:
    (asleep_us, *_), ticker_p99_ms = await run.ticker.quiet(
        partial(_costs_of_a_frame, run, run.uri(MAIN_FORMAT), ASLEEP_S)
    )
    run.figures.add("sleep/asleep/us_a_frame", asleep_us, ticker_p99_ms)
    for name in run.plan.formats:
        short = str(media.make_file(run.folder, name, SHORT_TRACK_S))
        # Each player's first turn; then those that follow, of which each has two.
        windows_s = (ADDING_S, SHORT_TRACK_S - ADDING_S, 2.0 * SHORT_TRACK_S)
        (first_us, _, later_us), ticker_p99_ms = await run.ticker.beside(
            partial(_costs_of_a_frame, run, short, *windows_s)
        )
        for kind, us_a_frame, window_s, turns in (
            ("first", first_us, ADDING_S, 1),
            ("later", later_us, windows_s[2], 2),
        ):
            turn_ms = (us_a_frame - asleep_us) * window_s * _FRAMES_A_SECOND / turns / 1000
            song_us = asleep_us + turn_ms * 1000 / (SONG_S * _FRAMES_A_SECOND)
            run.figures.add(f"sleep/{name}/{kind}/ms_a_turn", turn_ms, ticker_p99_ms)
            run.figures.add(f"sleep/{name}/{kind}/song_us_a_frame", song_us, ticker_p99_ms)


async def _costs_of_a_frame(run: Run, uri: str, *windows_s: float) -> list[float]:
    """µs of all processes for a frame of a player without listeners, whose track begins anew at each end: in windows
    one after the other, from when the last player sleeps."""
    async with streaming(tonearm_node(run.folder), uri) as node:
        for number in range(PLAYERS):
            await node.subject.add(node.session, f"p{number}", uri, bands=False)
            await asyncio.sleep(ADDING_S / PLAYERS)
        await asyncio.sleep(FALL_ASLEEP_S)
        costs = []
        for window_s in windows_s:
            before_s = node.subject.cpu_s()
            await asyncio.sleep(window_s)
            costs.append((node.subject.cpu_s() - before_s) * 1e6 / (PLAYERS * window_s * _FRAMES_A_SECOND))
        return costs

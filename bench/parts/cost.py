"""CPU for each frame and memory for each player in one format: floor, flat node, node with 5 bands, and relay, side by
side.
"""

import asyncio
from pathlib import Path
from typing import Final

from bench import media
from bench.floor import floor_us_a_frame
from bench.parts.window import add_window
from bench.plan import Run
from bench.streaming import Streaming, streaming
from bench.subjects import relay, tonearm_node

PLAYERS: Final = 50
NODE_FEW: Final = 20
NODE_MANY: Final = 100  # memory a player is what one more takes between the two
RELAY_FEW: Final = 20
RELAY_MANY: Final = PLAYERS  # a relay of a hundred may be over its edge


async def cost(run: Run, name: str) -> None:
    uri = run.uri(name)
    # The floor takes a second only and is measured between the others, so that a drift meets both.
    await _floor(run, name, uri)
    async with streaming(tonearm_node(run.folder), uri) as node:
        few_mb = await _pss_mb(node, NODE_FEW)
        await _window(run, node, f"cost/{name}/flat")
        many_mb = await _pss_mb(node, NODE_MANY)
        run.figures.add(f"cost/{name}/flat/mb_a_player", (many_mb - few_mb) / (NODE_MANY - NODE_FEW))
    await _floor(run, name, uri)
    async with streaming(tonearm_node(run.folder), uri, bands=True) as node:
        await _window(run, node, f"cost/{name}/bands")
    await _floor(run, name, uri)
    async with streaming(relay(uri), uri) as plain:
        few_mb = await _pss_mb(plain, RELAY_FEW)
        await _window(run, plain, f"cost/{name}/relay")
        many_mb = await _pss_mb(plain, RELAY_MANY)
        run.figures.add(f"cost/{name}/relay/mb_a_player", (many_mb - few_mb) / (RELAY_MANY - RELAY_FEW))


async def _floor(run: Run, name: str, uri: str) -> None:
    value, ticker_p99_ms = await run.ticker.quiet(
        lambda: asyncio.to_thread(floor_us_a_frame, Path(uri), media.LENGTH_S)
    )
    run.figures.add(f"floor/{name}/us_a_frame", value, ticker_p99_ms)


async def _window(run: Run, subject: Streaming, name: str) -> None:
    await subject.grow_to(PLAYERS)
    await add_window(run, subject, name)


async def _pss_mb(subject: Streaming, players: int) -> float:
    await subject.grow_to(players)
    return subject.subject.pss_mb()

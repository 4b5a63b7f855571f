"""Opus for listeners: MP3 in, packets out, beside libopus alone and the relay whose `ffmpeg` programs encode; a second
format for other listeners of the same players; the first packet, and a filter until it is heard."""

import asyncio
from pathlib import Path
from typing import Final

from bench import media
from bench.bare_write import bare_write_us
from bench.opus import encoding_us_a_frame, paced_us_a_frame
from bench.parts.window import add_window
from bench.plan import MAIN_FORMAT, Run
from bench.reactions import filter_heard_ms, first_frame_ms
from bench.spread import percentile
from bench.streaming import Streaming, streaming
from bench.subjects import DEFAULT_COMPLEXITY, TonearmNode, relay, tonearm_node

PLAYERS: Final = 25  # at complexity 10 they take most of two cores
COMPLEXITIES: Final = (DEFAULT_COMPLEXITY, 10)
CREATES: Final = 20
FILTER_CHANGES: Final = 20


async def opus(run: Run) -> None:
    for complexity in COMPLEXITIES:
        await _encoding(run, complexity)
    await _second_format(run)
    async with streaming(tonearm_node(run.folder), run.uri(MAIN_FORMAT), audio="opus") as subject:
        await _first_packets(run, subject)
        await _filters(run, subject, 1)
        await subject.grow_to(PLAYERS)
        await _filters(run, subject, PLAYERS)


async def _encoding(run: Run, complexity: int) -> None:
    """The node against the sum of what it has to do: the same node's PCM, and libopus on the same frames, in a warm
    loop and at the pace of players."""
    uri, name = run.uri(MAIN_FORMAT), f"opus/{complexity}"
    alone_us, paced_us = await _alone(run, complexity)
    async with streaming(tonearm_node(run.folder, complexity=complexity), uri) as node:
        await node.grow_to(PLAYERS)
        pcm_us = (await add_window(run, node, f"{name}/pcm")).us_a_frame
    run.figures.add(f"{name}/pcm_and_libopus/us_a_frame", pcm_us + alone_us)
    run.figures.add(f"{name}/pcm_and_libopus_paced/us_a_frame", pcm_us + paced_us)
    async with streaming(tonearm_node(run.folder, complexity=complexity), uri, audio="opus") as node:
        await node.grow_to(PLAYERS)
        await add_window(run, node, f"{name}/node")
    async with streaming(relay(uri, complexity=complexity), uri, audio="opus") as plain:
        await plain.grow_to(PLAYERS)
        encoded = await add_window(run, plain, f"{name}/relay")
    if encoded.us_a_frame < alone_us:
        run.figures.problem(f"{name}/relay: less than its encoder alone takes, so it stood still in this window")


async def _alone(run: Run, complexity: int) -> tuple[float, float]:
    """libopus alone, in a warm loop and at the pace of players."""
    path = Path(run.uri(MAIN_FORMAT))
    warm_us, ticker_p99_ms = await run.ticker.quiet(lambda: asyncio.to_thread(encoding_us_a_frame, path, complexity))
    run.figures.add(f"opus/{complexity}/libopus/us_a_frame", warm_us, ticker_p99_ms)
    seconds = run.plan.seconds
    paced_us, ticker_p99_ms = await run.ticker.quiet(lambda: paced_us_a_frame(path, complexity, PLAYERS, seconds))
    run.figures.add(f"opus/{complexity}/libopus_paced/us_a_frame", paced_us, ticker_p99_ms)
    return warm_us, paced_us


async def _second_format(run: Run) -> None:
    """What Opus listeners add to players that have PCM listeners: the encoding, and a write for each."""
    seconds = 2 * run.plan.seconds  # a difference of two windows has the errors of both
    alone_us, paced_us = await _alone(run, DEFAULT_COMPLEXITY)
    written_us, _ = await run.ticker.quiet(lambda: bare_write_us(seconds))
    async with streaming(tonearm_node(run.folder), run.uri(MAIN_FORMAT)) as node:
        await node.grow_to(PLAYERS)
        one, noise_one_ms = await run.ticker.quiet(lambda: node.window(seconds))
        await node.add_listeners(1, "opus")
        both, noise_both_ms = await run.ticker.quiet(lambda: node.window(seconds))
    added_us = both.us_a_frame * 2 - one.us_a_frame  # half of the frames that came are a player's
    run.figures.add("opus/second_format/us_a_frame", added_us, max(noise_one_ms, noise_both_ms))
    run.figures.add("opus/libopus_and_bare_write/us_a_frame", alone_us + written_us)
    run.figures.add("opus/libopus_paced_and_bare_write/us_a_frame", paced_us + written_us)


async def _first_packets(run: Run, subject: Streaming) -> None:
    uri, node = run.uri(MAIN_FORMAT), _node(subject)

    async def creates() -> list[float]:
        return [await first_frame_ms(node, subject.session, uri, f"f{number}", "opus") for number in range(CREATES)]

    taken, ticker_p99_ms = await run.ticker.quiet(creates)
    for value in taken:
        run.figures.add("opus/first_packet/ms", value, ticker_p99_ms)
    run.figures.add("opus/first_packet/p95_ms", percentile(taken, 95), ticker_p99_ms)
    run.figures.add("opus/first_packet/ticker_p99_ms", ticker_p99_ms)


async def _filters(run: Run, subject: Streaming, players: int) -> None:
    tone, node = str(media.make_tone(run.folder)), _node(subject)
    heard, ticker_p99_ms = await run.ticker.quiet(
        lambda: filter_heard_ms(node, subject.session, tone, FILTER_CHANGES, "opus")
    )
    for value in heard:
        run.figures.add(f"opus/filter_heard/{players}/ms", value, ticker_p99_ms)
    run.figures.add(f"opus/filter_heard/{players}/p95_ms", percentile(heard, 95), ticker_p99_ms)
    run.figures.add(f"opus/filter_heard/{players}/ticker_p99_ms", ticker_p99_ms)


def _node(subject: Streaming) -> TonearmNode:
    assert isinstance(subject.subject, TonearmNode)
    return subject.subject

"""How fast the node reacts: the first frame, an audible filter or overlay, and control requests. Alone, and while 100
players stream.
"""

from pathlib import Path
from typing import Final

from bench import media
from bench.plan import MAIN_FORMAT, Run
from bench.reactions import control_requests_ms, filter_heard_ms, first_frame_ms, overlay_heard_ms
from bench.spread import percentile
from bench.streaming import Streaming, streaming
from bench.subjects import TonearmNode, tonearm_node

PLAYERS: Final = 100
CREATES: Final = 20
FILTER_CHANGES: Final = 20
OVERLAYS: Final = 20
REQUESTS: Final = 300


async def reaction(run: Run) -> None:
    uri = run.uri(MAIN_FORMAT)
    async with streaming(tonearm_node(run.folder), uri) as subject:
        async with media.http_server(run.folder) as base:
            await _first_frames(run, subject, "file", uri)
            await _first_frames(run, subject, "http", f"{base}/{Path(uri).name}")
        await _filters(run, subject, 1)
        await _overlays(run, subject, 1, uri)
        await subject.grow_to(PLAYERS)
        await _filters(run, subject, PLAYERS)
        await _overlays(run, subject, PLAYERS, uri)
        node = _node(subject)
        taken, ticker_p99_ms = await run.ticker.quiet(lambda: control_requests_ms(node, subject.session, REQUESTS))
        run.figures.add(f"control/{PLAYERS}/p50_ms", percentile(taken, 50), ticker_p99_ms)
        run.figures.add(f"control/{PLAYERS}/p99_ms", percentile(taken, 99), ticker_p99_ms)
        run.figures.add(f"control/{PLAYERS}/ticker_p99_ms", ticker_p99_ms)


async def _first_frames(run: Run, subject: Streaming, kind: str, uri: str) -> None:
    async def creates() -> list[float]:
        return [await first_frame_ms(_node(subject), subject.session, uri, f"f{number}") for number in range(CREATES)]

    taken, ticker_p99_ms = await run.ticker.quiet(creates)
    for value in taken:
        run.figures.add(f"first_frame/{kind}/ms", value, ticker_p99_ms)
    run.figures.add(f"first_frame/{kind}/ticker_p99_ms", ticker_p99_ms)


async def _filters(run: Run, subject: Streaming, players: int) -> None:
    tone = str(media.make_tone(run.folder))
    heard, ticker_p99_ms = await run.ticker.quiet(
        lambda: filter_heard_ms(_node(subject), subject.session, tone, FILTER_CHANGES)
    )
    for value in heard:
        run.figures.add(f"filter_heard/{players}/ms", value, ticker_p99_ms)
    run.figures.add(f"filter_heard/{players}/p95_ms", percentile(heard, 95), ticker_p99_ms)
    run.figures.add(f"filter_heard/{players}/ticker_p99_ms", ticker_p99_ms)


async def _overlays(run: Run, subject: Streaming, players: int, uri: str) -> None:
    clip = str(media.make_clip(run.folder))
    heard, ticker_p99_ms = await run.ticker.quiet(
        lambda: overlay_heard_ms(_node(subject), subject.session, uri, clip, OVERLAYS)
    )
    for value in heard:
        run.figures.add(f"overlay_heard/{players}/ms", value, ticker_p99_ms)
    run.figures.add(f"overlay_heard/{players}/p95_ms", percentile(heard, 95), ticker_p99_ms)


def _node(subject: Streaming) -> TonearmNode:
    assert isinstance(subject.subject, TonearmNode)
    return subject.subject

"""How soon a seek in an MP3 is heard: a local file, over HTTP by ranges, and while 100 players stream."""

from typing import Final

from bench import media
from bench.plan import MAIN_FORMAT, Run
from bench.reactions import seek_heard_ms
from bench.spread import percentile
from bench.streaming import Streaming, streaming
from bench.subjects import TonearmNode, tonearm_node

PLAYERS: Final = 100
SEEKS: Final = 20


async def seek(run: Run) -> None:
    steps = media.make_steps(run.folder)
    async with streaming(tonearm_node(run.folder), run.uri(MAIN_FORMAT)) as subject:
        await _seeks(run, subject, "file", str(steps))
        async with media.http_server(run.folder) as base:
            await _seeks(run, subject, "http", f"{base}/{steps.name}")
        await subject.grow_to(PLAYERS)
        await _seeks(run, subject, "100", str(steps))


async def _seeks(run: Run, subject: Streaming, kind: str, uri: str) -> None:
    node = subject.subject
    assert isinstance(node, TonearmNode)
    heard, ticker_p99_ms = await run.ticker.quiet(lambda: seek_heard_ms(node, subject.session, uri, SEEKS))
    for value in heard:
        run.figures.add(f"seek_heard/{kind}/ms", value, ticker_p99_ms)
    run.figures.add(f"seek_heard/{kind}/p95_ms", percentile(heard, 95), ticker_p99_ms)
    run.figures.add(f"seek_heard/{kind}/ticker_p99_ms", ticker_p99_ms)

"""The cost of a further listener of one player, beside a bare write to a transport."""

from typing import Final

from bench.bare_write import bare_write_us
from bench.plan import MAIN_FORMAT, Run
from bench.streaming import streaming
from bench.subjects import tonearm_node

PLAYERS: Final = 20
LISTENERS: Final = 10


async def fanout(run: Run) -> None:
    uri = run.uri(MAIN_FORMAT)
    figures, seconds = run.figures, run.plan.seconds
    async with streaming(tonearm_node(run.folder), uri) as node:
        await node.grow_to(PLAYERS)
        one, noise_one_ms = await run.ticker.quiet(lambda: node.window(seconds))
        await node.add_listeners(LISTENERS - 1)
        ten, noise_ten_ms = await run.ticker.quiet(lambda: node.window(seconds))
    us_for_one = one.us_a_frame
    us_for_ten = ten.us_a_frame * LISTENERS  # a listener's frame is a tenth of a player's
    further_us = (us_for_ten - us_for_one) / (LISTENERS - 1)
    figures.add("fanout/further_listener/us_a_frame", further_us, max(noise_one_ms, noise_ten_ms))
    written_us, ticker_p99_ms = await run.ticker.quiet(lambda: bare_write_us(seconds))
    figures.add("fanout/bare_write/us", written_us, ticker_p99_ms)

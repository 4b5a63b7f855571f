"""One window of streaming as figures."""

from bench.plan import Run
from bench.streaming import EVEN_SHARE, Streamed, Streaming


async def add_window(run: Run, subject: Streaming, name: str) -> Streamed:
    """Measures a window beside the ticker and adds its figures below `name`."""
    streamed, ticker_p99_ms = await run.ticker.quiet(lambda: subject.window(run.plan.seconds))
    figures = run.figures
    figures.add(f"{name}/us_a_frame", streamed.us_a_frame, ticker_p99_ms)
    figures.add(f"{name}/late_p99_ms", streamed.evenness.late_p99_ms, ticker_p99_ms)
    figures.add(f"{name}/worst_share", streamed.evenness.worst_share, ticker_p99_ms)
    if streamed.evenness.worst_share <= EVEN_SHARE:
        figures.unserved.add(f"{name}/us_a_frame")
        figures.problem(f"{name}: the worst listener got {streamed.evenness.worst_share:.2%} of its frames")
    if streamed.strays or streamed.lost:
        figures.problem(f"{name}: {streamed.strays} messages that were no frames, {streamed.lost} listeners lost")
    return streamed

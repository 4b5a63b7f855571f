"""The largest number of players that are all served evenly."""

from contextlib import AsyncExitStack
from typing import Final

import aiohttp

from bench.edge import find_edge
from bench.parts.passthrough import SOURCE, passes_through
from bench.plan import Plan, Run
from bench.progress import progress_note
from bench.quiet import MOST_TRIES, NOISY_MS
from bench.streaming import Streamed, Streaming, streaming
from bench.subjects import Audio, relay, tonearm_node

STEP: Final = 25
PASSED_STEP: Final = 100
PASSTHROUGH: Final = "passthrough"  # of Opus, to Opus listeners
KINDS: Final = ("flat", "bands", "relay", PASSTHROUGH)
CLEARLY_UNEVEN: Final = 0.99  # a listener that gets less of its frames ends the trial
_GLANCE_S: Final = 1.0
# Where nothing is known yet: where the search begins, and with what stride.
_START: Final = {"flat": (200, 200), "bands": (150, 150), "relay": (50, 25), PASSTHROUGH: (1000, 200)}


def capacity_name(name: str, kind: str) -> str:
    return f"capacity/{name}/{kind}/players"


def kinds_of(plan: Plan, name: str) -> tuple[str, ...]:
    """What is measured for a format: only one has packets that can be passed through."""
    return tuple(kind for kind in plan.capacity_kinds if kind != PASSTHROUGH or name == SOURCE)


async def capacity(run: Run, name: str, kind: str) -> None:
    if kind == PASSTHROUGH and not await passes_through(run):
        return
    async with _Trials(run, name, kind) as trials:
        edge = await find_edge(trials.is_even, *_beginning(run, name, kind), _step(kind))
        run.figures.add(capacity_name(name, kind), edge, trials.ticker_p99_ms.get(edge))


def _beginning(run: Run, name: str, kind: str) -> tuple[int, int]:
    """The last answer and one step; in the first round the answer of another format and two."""
    last = run.figures.last(capacity_name(name, kind))
    if last is not None:
        return int(last), _step(kind)
    others = [run.figures.last(capacity_name(other, kind)) for other in run.plan.capacity_formats]
    known = [int(other) for other in others if other is not None]
    return (known[-1], 2 * STEP) if known else _START[kind]


def _step(kind: str) -> int:
    return PASSED_STEP if kind == PASSTHROUGH else STEP


class _Trials:
    """One subject is kept while the trials grow; a smaller one begins anew, without what the larger left behind."""

    def __init__(self, run: Run, name: str, kind: str) -> None:
        self.ticker_p99_ms: dict[int, float] = {}
        self._run = run
        self._name = name
        self._uri = run.uri(name)
        self._kind = kind
        self._stack = AsyncExitStack()
        self._streaming: Streaming | None = None

    async def __aenter__(self) -> "_Trials":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def is_even(self, players: int) -> bool:
        try:
            subject = await self._with_players(players)
            for _ in range(MOST_TRIES):
                streamed, ticker_p99_ms = await self._run.ticker.beside(lambda: self._window(subject))
                if streamed.is_even or ticker_p99_ms <= NOISY_MS:
                    break
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            progress_note(f"{players} players: too busy to take them ({type(error).__name__})")
            await self._end()
            return False
        self.ticker_p99_ms[players] = ticker_p99_ms
        trial = f"capacity/{self._name}/{self._kind}/trial_{players}"
        self._run.figures.add(f"{trial}/worst_share", streamed.evenness.worst_share)
        self._run.figures.add(f"{trial}/late_p99_ms", streamed.evenness.late_p99_ms)
        self._run.figures.add(f"{trial}/ticker_p99_ms", ticker_p99_ms)
        self._run.figures.add(f"{trial}/us_a_frame", streamed.us_a_frame)
        self._run.figures.add(f"{trial}/listening_us_a_frame", streamed.listening_us_a_frame)
        verdict = "even" if streamed.is_even else "uneven"
        progress_note(
            f"{players} players: {verdict}, worst share {streamed.evenness.worst_share:.1%}, "
            f"late p99 {streamed.evenness.late_p99_ms:.0f} ms, bare ticker {ticker_p99_ms:.1f} ms, "
            f"{streamed.us_a_frame:.0f} µs a frame, beside it the listeners {streamed.listening_us_a_frame:.0f}"
        )
        return streamed.is_even

    async def _with_players(self, players: int) -> Streaming:
        if self._streaming is not None and self._streaming.players > players:
            await self._end()
        if self._streaming is None:
            starting = relay(self._uri) if self._kind == "relay" else tonearm_node(self._run.folder)
            audio: Audio = "opus" if self._kind == PASSTHROUGH else "pcm"
            self._streaming = await self._stack.enter_async_context(
                streaming(starting, self._uri, bands=self._kind == "bands", audio=audio)
            )
        await self._streaming.grow_to(players)
        return self._streaming

    async def _window(self, subject: Streaming) -> Streamed:
        glance = await subject.window(min(_GLANCE_S, self._run.plan.seconds))
        if glance.evenness.worst_share < CLEARLY_UNEVEN or self._run.plan.seconds <= _GLANCE_S:
            return glance
        return await subject.window(self._run.plan.seconds)

    async def _end(self) -> None:
        self._streaming = None
        await self._stack.aclose()

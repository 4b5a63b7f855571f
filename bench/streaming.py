"""Streams many players to real listeners, and measures the cost."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import aiohttp

from bench.evenness import Evenness
from bench.order_pipe import OrderPipe, order_pipe
from bench.subjects import HOST, Audio, Subject

SETTLE_S: Final = 2.0
_BEGIN_LIMIT_S: Final = 20.0
EVEN_SHARE: Final = 0.999
EVEN_LATE_MS: Final = 20.0
_ADDED_AT_ONCE: Final = 25

Reading = TypeVar("Reading")


@dataclass(frozen=True)
class Streamed:
    """One window: what it cost the subject and, beside it, the listeners' process; how evenly the frames came; how many
    listeners were sent something else, or lost."""

    cpu_s: float
    listening_cpu_s: float
    evenness: Evenness
    strays: int
    lost: int

    @property
    def us_a_frame(self) -> float:
        return self.cpu_s * 1e6 / max(1, self.evenness.frames)

    @property
    def listening_us_a_frame(self) -> float:
        return self.listening_cpu_s * 1e6 / max(1, self.evenness.frames)

    @property
    def is_even(self) -> bool:
        """Every listener got its frames, and in time."""
        is_whole = self.evenness.worst_share > EVEN_SHARE and not self.strays and not self.lost
        return is_whole and self.evenness.late_p99_ms < EVEN_LATE_MS


class Streaming:
    """A subject, its players p0, p1, … and their listeners."""

    def __init__(
        self,
        subject: Subject,
        session: aiohttp.ClientSession,
        side: OrderPipe,
        uri: str,
        *,
        bands: bool,
        audio: Audio,
        settle_s: float,
    ) -> None:
        self.subject = subject
        self.session = session
        self.players = 0
        self._side = side
        self._uri = uri
        self._bands = bands
        self._audio = audio
        self._settle_s = settle_s

    async def grow_to(self, players: int, *, has_listeners: bool = True) -> None:
        """Adds players until there are so many, with one listener each, and lets all begin and settle."""
        while self.players < players:
            more = range(self.players, min(players, self.players + _ADDED_AT_ONCE))
            ids = [f"p{number}" for number in more]
            adding = (self.subject.add(self.session, player_id, self._uri, bands=self._bands) for player_id in ids)
            await asyncio.gather(*adding)
            if has_listeners:
                await self._listen(ids)
            self.players = more.stop
        if has_listeners:
            await self._side.order(do="hear_all", limit_s=_BEGIN_LIMIT_S)
        await asyncio.sleep(self._settle_s)

    async def listen_to(self, numbers: range) -> None:
        """One listener more to each of these players, which are there already; they begin and settle."""
        await self._listen([f"p{number}" for number in numbers])
        await self._side.order(do="hear_all", limit_s=_BEGIN_LIMIT_S)
        await asyncio.sleep(self._settle_s)

    async def add_listeners(self, count: int, audio: Audio | None = None) -> None:
        """`count` more to each player, of the same kind as its first unless `audio` names another."""
        for number in range(self.players):
            await self._listen([f"p{number}"] * count, audio)
        await asyncio.sleep(self._settle_s)

    async def window(self, seconds: float) -> Streamed:
        return (await self.window_between(seconds, lambda: None))[0]

    async def window_between(self, seconds: float, read: Callable[[], Reading]) -> tuple[Streamed, Reading, Reading]:
        """Counts frames and CPU for so long. `read` is called at both ends of it."""
        await self._side.order(do="begin")
        cpu_before_s, before = self.subject.cpu_s(), read()
        await asyncio.sleep(seconds)
        cpu_after_s, after = self.subject.cpu_s(), read()
        report = await self._side.order(do="end")
        strays, lost, listening_cpu_s = report.pop("strays"), report.pop("lost"), report.pop("listening_cpu_s")
        cpu_s = cpu_after_s - cpu_before_s
        return Streamed(cpu_s, listening_cpu_s, Evenness(**report), strays, lost), before, after

    async def _listen(self, ids: list[str], audio: Audio | None = None) -> None:
        audio = audio or self._audio
        paths = [self.subject.path(player_id, audio) for player_id in ids]
        order = {"host": HOST, "port": self.subject.port, "paths": paths, "is_opus": audio == "opus"}
        await self._side.order(do="listen", **order)


@asynccontextmanager
async def streaming(
    starting: AbstractAsyncContextManager[Subject],
    uri: str,
    *,
    bands: bool = False,
    audio: Audio = "pcm",
    settle_s: float = SETTLE_S,
) -> AsyncIterator[Streaming]:
    """Starts the subject and the process of its listeners, who listen to `audio`."""
    timeout = aiohttp.ClientTimeout(total=60)
    async with (
        starting as subject,
        order_pipe("bench.listeners") as side,
        aiohttp.ClientSession(timeout=timeout) as session,
    ):
        yield Streaming(subject, session, side, uri, bands=bands, audio=audio, settle_s=settle_s)

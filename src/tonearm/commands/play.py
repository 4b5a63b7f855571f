"""`tonearm play`: a player for a terminal, on a node."""

import asyncio
import math
import os
import re
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from rich.bar import Bar
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tonearm.client import (
    AudioStream,
    Event,
    Node,
    Player,
    PlayerExists,
    PlayerGone,
    PlayerUpdate,
    QueueEnd,
    State,
    TonearmError,
    TrackException,
    TrackStart,
)
from tonearm.commands.running import (
    NodeOptions,
    clock,
    complain,
    patience,
    print_json,
    run,
    say,
    seen_by_node,
    with_remedy,
)
from tonearm.core.printable import printable
from tonearm.process import ExitCode

_DRAWN_EACH_S: Final = 0.1
_FLOOR_DB: Final = -60.0
_SEEK_MS: Final = 10_000
_KEY: Final = re.compile("\x1b\\[.|.", re.DOTALL)


def play(tracks: Sequence[str], player: str | None, keep: bool, as_json: bool, wait_s: float, at: NodeOptions) -> int:
    """Until the queue is at its end or the user quits. 1 when nothing could be played."""

    async def work(node: Node) -> int:
        playing_in, is_ours = await _player(node, player)
        try:
            async with patience(wait_s) as heed:
                playing = _Playing(playing_in, heed, as_json=as_json)
                # The sound is asked for first, so that the beginning of the first track has a listener.
                async with playing_in.audio() as audio:
                    hearing = asyncio.create_task(playing.hear(audio))
                    await playing_in.queue.put(*(seen_by_node(track, at.url) for track in tracks))
                    try:
                        return await playing.to_the_end()
                    finally:
                        hearing.cancel()
        finally:
            if is_ours and not keep:
                with suppress(TonearmError):  # it is gone already, or the node is
                    await playing_in.delete()

    return run(at, work)


async def _player(node: Node, name: str | None) -> tuple[Player, bool]:
    """The player of this name, and whether it was made for it."""
    name = name or f"terminal-{os.getpid()}"
    try:
        return await node.create_player(name), True
    except PlayerExists:
        return await node.player(name).refresh(), False


class _Playing:
    """What is shown and what keys do while a player plays."""

    def __init__(self, player: Player, heed: Callable[[Event], str | None], *, as_json: bool) -> None:
        self._player = player
        self._heed = heed
        self._as_json = as_json
        self._is_drawn = sys.stdout.isatty() and not as_json
        self._ended = asyncio.Event()
        self._peak_db = _FLOOR_DB
        self._has_played = False
        self._error: TonearmError | None = None
        self._pressed: set[asyncio.Task[None]] = set()
        player.on(object, self._take)  # before anything is played: nothing of it is missed

    async def hear(self, audio: AudioStream) -> None:
        """Measures the level, and is the listener whom the player plays to."""
        try:
            async for frame in audio:
                samples = memoryview(frame.payload).cast("h")
                peak = max(max(samples), -min(samples), 1)
                self._peak_db = max(20 * math.log10(peak / 32768), self._peak_db - 1.0, _FLOOR_DB)
        except TonearmError as error:
            self._error = error
            self._ended.set()

    async def to_the_end(self) -> int:
        if self._is_drawn:
            await self._show()
        else:
            await self._ended.wait()
        if self._error is not None:
            raise self._error
        return ExitCode.OK if self._has_played else ExitCode.FAILED

    def _take(self, event: Any) -> None:
        if self._as_json:
            print_json(event)
        told = self._heed(event)
        if told:
            complain(told)
        match event:
            case TrackStart():
                self._has_played = True
                if not self._as_json and not self._is_drawn:
                    say(printable(event.track.info.title))
            case TrackException():
                complain(f"{event.error.message} {event.error.hint}")
            case PlayerGone():
                self._error = self._error or TonearmError(f"The player {event.id} is gone.")
                self._ended.set()
            case QueueEnd() | PlayerUpdate(state=State.FAILED):
                self._ended.set()

    async def _show(self) -> None:
        with _keys(self._press), Live(console=Console(), refresh_per_second=10, transient=True) as live:
            while not self._ended.is_set():
                live.update(self._view())
                await asyncio.sleep(_DRAWN_EACH_S)

    def _view(self) -> Group:
        player = self._player
        info = player.current.info if player.current else None
        length_ms = info.length if info else 0
        state = "paused" if player.paused else player.state.value
        at = f"{clock(player.position)} / {clock(length_ms)}" if length_ms else clock(player.position)
        progress, level = Table.grid(), Table.grid(padding=(0, 1))
        progress.add_row(ProgressBar(total=max(length_ms, 1), completed=min(player.position, length_ms), width=60))
        level.add_row(Bar(-_FLOOR_DB, 0, self._peak_db - _FLOOR_DB, width=30), f"{self._peak_db:5.1f} dBFS")
        return Group(
            Text(printable(info.title) if info else "", style="bold"),
            Text(f"{state}  {at}  volume {round(player.volume * 100)} %  waiting {len(player.queue)}"),
            progress,
            level,
            Text("space pause  n skip  p previous  ← → 10 s  + - volume  q quit", style="dim"),
        )

    def _press(self, key: str) -> None:
        task = asyncio.ensure_future(self._do(key))
        self._pressed.add(task)
        task.add_done_callback(self._pressed.discard)

    async def _do(self, key: str) -> None:
        player = self._player
        try:
            match key:
                case " ":
                    await (player.resume() if player.paused else player.pause())
                case "n":
                    await player.skip()
                case "p":
                    await player.previous()
                case "\x1b[C" | "\x1b[D":
                    await player.seek_by(_SEEK_MS if key.endswith("C") else -_SEEK_MS)
                case "+" | "-":
                    await player.set_volume(min(max(player.volume + (0.05 if key == "+" else -0.05), 0), 5))
                case "q":
                    self._has_played = True
                    self._ended.set()
        except TonearmError as error:
            complain(with_remedy(error))


@contextmanager
def _keys(press: Callable[[str], None]) -> Iterator[None]:
    """Calls `press` with each key, if there is a keyboard."""
    if not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()
    tty.setcbreak(descriptor)

    def read() -> None:
        with suppress(OSError):
            typed = os.read(descriptor, 64).decode(errors="replace")
            if typed:
                for key in _KEY.findall(typed):
                    press(key)
                return
        loop.remove_reader(descriptor)  # the terminal is gone

    loop.add_reader(descriptor, read)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

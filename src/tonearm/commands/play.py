"""`tonearm play`: plays tracks on a node and shows and controls the player in a terminal."""

import asyncio
import os
import re
import sys
import termios
import tty
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, nullcontext, suppress
from typing import Final

from tonearm.client import (
    AudioStream,
    Disconnected,
    Event,
    Node,
    Player,
    PlayerExists,
    QueueEnd,
    Reconnected,
    State,
    TonearmError,
    TrackException,
    TrackStart,
)
from tonearm.commands.listen import MAX_LATENCY_MS, Hearing
from tonearm.commands.listen_display import Display
from tonearm.commands.running import NodeOptions, playable, print_json, run, say, with_remedy
from tonearm.commands.sounding import Speaker, found_program, no_program
from tonearm.core.frame import FRAME_S
from tonearm.core.printable import printable
from tonearm.process import ExitCode

_HELP: Final = "space pause  n skip  p previous  ← → 10 s  + - volume  q quit"
_SEEK_MS: Final = 10_000
_KEY: Final = re.compile("\x1b\\[.|.", re.DOTALL)


def play(
    tracks: Sequence[str],
    player: str | None,
    keep: bool,
    output: str | None,
    as_json: bool,
    wait_s: float,
    at: NodeOptions,
) -> int:
    """Until the queue is at its end or the user quits. 1 when nothing could be played."""
    is_drawn, sounds = sys.stdout.isatty() and not as_json, output != ""
    display = Display(sys.stdout, _HELP if sys.stdin.isatty() else "", is_quiet=not is_drawn)

    async def work(node: Node) -> int:
        program = found_program(output) if sounds else None
        wanted = await playable(node, tracks)
        playing_in, is_ours = await _player(node, player)
        speaker = Speaker(program, display.say) if program else None
        if sounds:
            display.say(f"playing through {program}" if program else no_program(playing_in.stream_url()))
        try:
            # Sound and events are asked for first, so that nothing of the first track is missed.
            async with (
                aclosing(playing_in.events()) as events,
                playing_in.audio(max_latency_ms=MAX_LATENCY_MS) as audio,
            ):
                playing = _Playing(display, speaker, await anext(events), playing_in, as_json=as_json)

                await playing_in.queue.put(*wanted)
                with _keys(playing.press) if is_drawn else nullcontext():
                    return await playing.to_the_end(events, audio, wait_s)
        finally:
            display.clear()
            if is_ours and not keep:
                with suppress(TonearmError):  # The player or the node is gone already.
                    await playing_in.delete()
            if speaker is not None:
                await speaker.close()

    return run(at, work)


async def _player(node: Node, name: str | None) -> tuple[Player, bool]:
    """The player of this name, and whether it was created now."""
    name = name or f"terminal-{os.getpid()}"
    try:
        return await node.create_player(name), True
    except PlayerExists:
        return await node.player(name).refresh(), False


class _Playing(Hearing):
    """The `Hearing` of a player that ends with its queue. Also handles keys."""

    def __init__(
        self, display: Display, speaker: Speaker | None, first: Event, player: Player, *, as_json: bool
    ) -> None:
        super().__init__(display, [speaker] if speaker else [], first)
        self._speaker = speaker
        self._player = player
        self._as_json = as_json
        self._is_drawn = sys.stdout.isatty() and not as_json
        self._ended = asyncio.Event()
        self._has_played = self._has_quit = False
        self._pressed: set[asyncio.Task[None]] = set()

    async def to_the_end(self, events: AsyncIterator[Event], audio: AudioStream, wait_s: float) -> int:
        """Runs until the end of the queue, unless the user quits. Returns the exit code. Raises `TonearmError`."""
        await self.run(events, audio, wait_s, self._heard_all(audio))
        if not self._ended.is_set():
            raise TonearmError(f"Player {self._player.id} was deleted.")
        return ExitCode.OK if self._has_played else ExitCode.FAILED

    async def _heard_all(self, audio: AudioStream) -> None:
        await self._ended.wait()
        if self._speaker is None or self._has_quit:
            return
        self._speaker.plays_out = True
        received = -1
        while received != audio.received and self._view.state is State.IDLE:
            received = audio.received  # the last frames come on another socket than the event
            await asyncio.sleep(2 * FRAME_S)

    def _take(self, event: Event, sentence: str | None) -> None:
        if self._as_json:
            print_json(event)
        match event:
            case TrackStart():
                self._has_played = True
                if not self._as_json and not self._is_drawn:
                    say(printable(event.track.info.title))
            case TrackException():
                self._display.say(f"{event.error.message} {event.error.hint}")
            case Disconnected() | Reconnected() if sentence:
                self._display.say(sentence)
            case QueueEnd():
                self._ended.set()

    def press(self, key: str) -> None:
        task = asyncio.ensure_future(self._do(key))
        self._pressed.add(task)
        task.add_done_callback(self._pressed.discard)

    async def _do(self, key: str) -> None:
        player, now = self._player, self._view
        try:
            match key:
                case " ":
                    await (player.resume() if now.paused else player.pause())
                case "n":
                    await player.skip()
                case "p":
                    await player.previous()
                case "\x1b[C" | "\x1b[D":
                    await player.seek_by(_SEEK_MS if key.endswith("C") else -_SEEK_MS)
                case "+" | "-":
                    await player.set_volume(min(max(now.volume + (0.05 if key == "+" else -0.05), 0), 5))
                case "q":
                    self._has_played = self._has_quit = True
                    self._ended.set()
        except TonearmError as error:
            self._display.say(with_remedy(error))


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
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

"""The command `tonearm listen`, from its options to its exit code: a player's sound and events, through the client."""

import asyncio
import math
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Final

from tonearm import exit_codes
from tonearm.client import AudioStream, Event, Node, TonearmError
from tonearm.commands.listen.display import Display, Pacing, PlayerView
from tonearm.commands.listen.meters import Meters
from tonearm.commands.listen.outputs import Output, OutputEndedError, WavOutput, open_raw_output
from tonearm.commands.running import NodeOptions, complain, patience, run
from tonearm.core.frame import FRAME_BYTES, FRAMES_PER_SECOND

_MAX_LATENCY_MS: Final = 1000  # rather late than lost: a file is to have all of it


def listen(player: str, save: Path | None, raw: bool, wait_s: float, at: NodeOptions) -> int:
    """Listens until the player is deleted or the user ends it, through restarts of the node."""
    # stdout belongs to the audio when it was asked for there.
    display = Display(sys.stderr if raw else sys.stdout)

    async def work(node: Node) -> int:
        heard = node.player(player)
        outputs: list[Output] = []
        async with aclosing(heard.events()) as events:
            first = await anext(events)  # what is wrong is raised here, before a file is written over
            try:
                if save is not None:
                    outputs.append(WavOutput(save))
                if raw:
                    outputs.append(await open_raw_output(sys.stdout.buffer))
                session = _Session(display, outputs, first)
                # The events came first, so the TrackStart that the first listener brings about is not missed.
                async with heard.audio(max_latency_ms=_MAX_LATENCY_MS) as audio:
                    display.say(f"listening to {player} on {at.url}; Ctrl-C stops")
                    return await session.run(events, audio, wait_s)
            finally:
                await _finish(outputs)

    try:
        return run(at, work)
    except OutputEndedError as error:
        return complain(str(error))


async def _finish(outputs: Sequence[Output]) -> None:
    """Raises the last `OutputEndedError`."""
    failure = None
    for output in outputs:
        try:
            await output.close()
        except OutputEndedError as error:
            failure = error
    if failure is not None:
        raise failure


class _Session:
    """What is heard and shown of a player. `first` is the event with its whole state."""

    def __init__(self, display: Display, outputs: Sequence[Output], first: Event) -> None:
        self._display = display
        self._outputs = outputs
        self._view = PlayerView()
        self._view.follow(first)
        self._pacing = Pacing()
        self._meters = Meters()
        self._frames = 0

    async def run(self, events: AsyncIterator[Event], audio: AudioStream, wait_s: float) -> int:
        """Until the player is gone, the node stays away for so long, or the task is cancelled, as signals do. Raises
        `OutputEndedError` and `TonearmError`."""
        ending = "The connection to the node was lost."
        try:
            async with patience(wait_s) as heed:
                helpers = [asyncio.create_task(self._follow(events, heed)), asyncio.create_task(self._draw())]
                try:
                    await self._hear(audio)
                finally:
                    for helper in helpers:
                        helper.cancel()
                    await asyncio.gather(*helpers, return_exceptions=True)
            ending = "The player is gone."
        except asyncio.CancelledError:
            ending = "Stopped."
        except TonearmError:
            self._display.say(f"{ending} {self._summary(audio)}.")
            raise
        self._display.say(f"{ending} {self._summary(audio)}.")
        return exit_codes.OK

    def _summary(self, audio: AudioStream) -> str:
        told = f"{self._frames / FRAMES_PER_SECOND:.1f} s heard"
        told += f", {self._pacing.late_frames} of {self._frames} frames late"
        if audio.lost:
            told += f", {audio.lost} lost"
        lufs, peak_db = self._meters.integrated_lufs, self._meters.highest_true_peak_db
        if lufs != -math.inf:  # else silence, or less than 400 ms
            told += f"; {lufs:.1f} LUFS, true peak {peak_db:.1f} dBTP"
        return told

    async def _hear(self, audio: AudioStream) -> None:
        async for frame in audio:
            if len(frame.payload) != FRAME_BYTES:
                continue
            self._pacing.arrived(time.monotonic())
            self._frames += 1
            self._meters.add(frame.payload)
            for output in self._outputs:
                output.write(frame.payload)

    async def _follow(self, events: AsyncIterator[Event], heed: Callable[[Event], str | None]) -> None:
        with suppress(TonearmError):  # which the sound meets, too
            async for event in events:
                is_break, sentence = self._view.follow(event)
                if is_break:
                    self._pacing.interrupted()
                sentence = sentence or heed(event)
                if sentence:
                    self._display.say(sentence)

    async def _draw(self) -> None:
        while True:
            await asyncio.sleep(self._display.interval_s)
            self._display.show(self._view, self._meters.take(), self._pacing.late_frames)

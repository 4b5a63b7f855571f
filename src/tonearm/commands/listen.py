"""The command `tonearm listen`, from its options to its exit code: a player's sound and events, through the client. The
sound goes to a file, a program, or nowhere.
"""

import asyncio
import math
import os
import stat
import sys
import time
import wave
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Final, TypeAlias

from tonearm.client import AudioStream, Event, Node, TonearmError
from tonearm.commands.listen_display import Display, Meters, Pacing, PlayerView
from tonearm.commands.running import NodeOptions, complain, patience, player_or_only, run
from tonearm.commands.sounding import OutputEndedError, PipeWriter, Speaker, found_program, no_program
from tonearm.core.frame import CHANNELS, FRAME_BYTES, FRAMES_PER_SECOND, SAMPLE_BYTES, SAMPLE_RATE_HZ
from tonearm.process import ExitCode

# RIFF sizes are 32 bits; the rest is room for the header.
_LARGEST_WAV_BYTES: Final = (1 << 32) - 4096


class WavWriter:
    """A WAV file. `close` writes the true length into the header. Raises `OutputEndedError`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written_bytes = 0
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise OutputEndedError(f"{path} cannot be written: {error.strerror or error}.") from None
        self._wave = wave.open(self._file, "wb")  # noqa: SIM115 - closed by `close`
        self._wave.setnchannels(CHANNELS)
        self._wave.setsampwidth(SAMPLE_BYTES)
        self._wave.setframerate(SAMPLE_RATE_HZ)

    def write(self, pcm: bytes) -> None:
        if self._written_bytes + len(pcm) > _LARGEST_WAV_BYTES:
            raise OutputEndedError(f"{self._path} has the largest size of a WAV file; name another file.")
        try:
            self._wave.writeframesraw(pcm)
        except OSError as error:
            raise OutputEndedError(f"{self._path} cannot be written: {error.strerror or error}.") from None
        self._written_bytes += len(pcm)

    async def close(self) -> None:
        try:
            with self._file:
                self._wave.close()
        except OSError as error:
            raise OutputEndedError(f"{self._path} cannot be finished: {error.strerror or error}.") from None


PcmWriter: TypeAlias = WavWriter | PipeWriter | Speaker

MAX_LATENCY_MS: Final = 1000  # A file should have all frames, so late is better than lost.


def listen(player: str | None, save: Path | None, raw: bool, output: str | None, wait_s: float, at: NodeOptions) -> int:
    """Listens until the player is deleted or the user quits. Continues after restarts of the node."""
    # If the audio goes to stdout, nothing else may be written there.
    display = Display(sys.stderr if raw else sys.stdout)
    has_reader = raw or save is not None or stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    sounds = output != "" and (output is not None or not has_reader)

    async def work(node: Node) -> int:
        heard = await player_or_only(node, player)
        program = found_program(output) if sounds else None
        writers: list[PcmWriter] = []
        async with aclosing(heard.events()) as events:
            first = await anext(events)  # An error is raised here, before a file is overwritten.
            try:
                if save is not None:
                    writers.append(WavWriter(save))
                if raw:
                    if sys.stdout.isatty():
                        raise OutputEndedError(
                            "--raw writes audio; pipe it into a program: | aplay -f S16_LE -r 48000 -c 2"
                        )
                    writers.append(PipeWriter(sys.stdout.fileno()))
                if program is not None:
                    writers.append(Speaker(program, display.say))
                hearing = Hearing(display, writers, first)
                # The events came first, so the TrackStart that the first listener brings about is not missed.
                async with heard.audio(max_latency_ms=MAX_LATENCY_MS) as audio:
                    through = f" through {program}" if program else ""
                    display.say(f"listening to {heard.id} on {at.url}{through}; Ctrl-C stops")
                    if sounds and program is None:
                        display.say(no_program(heard.stream_url()))
                    ending = "The connection to the node was lost."
                    try:
                        await hearing.run(events, audio, wait_s, asyncio.Event().wait())
                        ending = "The player was deleted."
                    except asyncio.CancelledError:
                        ending = "Stopped."
                    finally:
                        display.say(f"{ending} {hearing.summary(audio)}.")
            finally:
                await finish(writers)
        return ExitCode.OK

    try:
        return run(at, work)
    except OutputEndedError as error:
        return complain(str(error))


async def finish(writers: Sequence[PcmWriter]) -> None:
    """Raises the last `OutputEndedError`."""
    failure = None
    for writer in writers:
        try:
            await writer.close()
        except OutputEndedError as error:
            failure = error
    if failure is not None:
        raise failure


class Hearing:
    """Receives and displays a player's audio and events. `first` is the event with the player's whole state."""

    def __init__(self, display: Display, writers: Sequence[PcmWriter], first: Event) -> None:
        self._view = PlayerView()
        self._view.follow(first)
        self._display = display
        self._writers = writers
        self._pacing = Pacing()
        self._meters = Meters()
        self._frames = 0

    async def run(
        self, events: AsyncIterator[Event], audio: AudioStream, wait_s: float, until: Awaitable[object]
    ) -> None:
        """Runs until the player is gone, the node is away for `wait_s`, or `until` is over. Raises `OutputEndedError`
        and `TonearmError`."""
        async with patience(wait_s) as heed:
            ends = [asyncio.ensure_future(one) for one in (self._hear(audio), until)]
            helpers = [asyncio.ensure_future(one) for one in (self._follow(events, heed), self._draw())]
            try:
                done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                for one in done:
                    one.result()
            finally:
                for task in (*ends, *helpers):
                    task.cancel()
                await asyncio.gather(*ends, *helpers, return_exceptions=True)

    def summary(self, audio: AudioStream) -> str:
        """A summary of all audio that was received."""
        told = f"{self._frames / FRAMES_PER_SECOND:.1f} s heard"
        told += f", {self._pacing.late_frames} of {self._frames} frames late"
        if audio.lost:
            told += f", {audio.lost} lost"
        lufs, peak_db = self._meters.integrated_lufs, self._meters.highest_true_peak_db
        if lufs != -math.inf:  # It is -inf for silence and for less than 400 ms.
            told += f"; {lufs:.1f} LUFS, true peak {peak_db:.1f} dBTP"
        return told

    async def _hear(self, audio: AudioStream) -> None:
        async for frame in audio:
            if len(frame.payload) != FRAME_BYTES:
                continue
            self._pacing.arrived(time.monotonic())
            self._frames += 1
            self._meters.add(frame.payload)
            for writer in self._writers:
                writer.write(frame.payload)

    async def _follow(self, events: AsyncIterator[Event], heed: Callable[[Event], str | None]) -> None:
        with suppress(TonearmError):  # The audio stream raises the same error.
            async for event in events:
                is_break, sentence = self._view.follow(event)
                if is_break:
                    self._pacing.interrupted()
                self._take(event, sentence or heed(event))

    def _take(self, event: Event, sentence: str | None) -> None:
        """Handles an event and prints its sentence, if it has one."""
        if sentence:
            self._display.say(sentence)

    async def _draw(self) -> None:
        while True:
            await asyncio.sleep(self._display.interval_s)
            self._display.show(self._view, self._meters.take(), self._pacing.late_frames)

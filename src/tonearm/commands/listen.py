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
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from tonearm.client import AudioStream, Event, Node, TonearmError
from tonearm.commands.listen_display import Display, Meters, Pacing, PlayerView
from tonearm.commands.running import NodeOptions, complain, patience, run
from tonearm.core.frame import CHANNELS, FRAME_BYTES, FRAMES_PER_SECOND, SAMPLE_BYTES, SAMPLE_RATE_HZ
from tonearm.process import ExitCode

# RIFF sizes are 32 bits; the rest is room for the header.
_LARGEST_WAV_BYTES: Final = (1 << 32) - 4096
_RAW_BACKLOG_BYTES: Final = FRAMES_PER_SECOND * FRAME_BYTES  # one second, as the node keeps for a listener
_RAW_CLOSE_PATIENCE_S: Final = 1.0


class OutputEndedError(Exception):
    """The output takes no more; the message is a sentence for the user."""


class PcmWriter(Protocol):
    def write(self, pcm: bytes) -> None:
        """Raises `OutputEndedError`."""
        ...

    async def close(self) -> None:
        """Gives on what is still kept. Raises `OutputEndedError`."""
        ...


class WavWriter:
    """A WAV file. Its header gets the true length in `close`. Raises `OutputEndedError`."""

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
            raise OutputEndedError(f"{self._path} is as large as a WAV file can be.")
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


class FileWriter:
    """PCM into an open file, which never makes anybody wait."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, pcm: bytes) -> None:
        try:
            self._file.write(pcm)
            self._file.flush()
        except OSError as error:
            raise OutputEndedError(f"stdout cannot be written: {error.strerror or error}.") from None

    async def close(self) -> None:
        """The file belongs to the process."""


class PipeWriter(asyncio.BaseProtocol):
    """PCM into a pipe without waiting for its reader: what it does not take within a second is left out."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()

    def write(self, pcm: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            raise OutputEndedError("The program that reads the audio has ended.")
        if transport.get_write_buffer_size() < _RAW_BACKLOG_BYTES:
            transport.write(pcm)

    async def close(self) -> None:
        if self._transport is None:
            return
        self._transport.close()  # once the reader has taken the rest
        try:
            await asyncio.wait_for(self._gone.wait(), _RAW_CLOSE_PATIENCE_S)
        except TimeoutError:
            self._transport.abort()


async def open_raw_writer(stdout: BinaryIO) -> PcmWriter:
    """The writer of PCM on `stdout`. Raises `OutputEndedError` for a terminal."""
    if stdout.isatty():
        raise OutputEndedError("--raw writes audio; pipe it into a program: | aplay -f S16_LE -r 48000 -c 2")
    mode = os.fstat(stdout.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return FileWriter(stdout)
    _, writer = await asyncio.get_running_loop().connect_write_pipe(PipeWriter, stdout)
    return writer


_MAX_LATENCY_MS: Final = 1000  # rather late than lost: a file is to have all of it


def listen(player: str, save: Path | None, raw: bool, wait_s: float, at: NodeOptions) -> int:
    """Listens until the player is deleted or the user ends it, through restarts of the node."""
    # stdout belongs to the audio when it was asked for there.
    display = Display(sys.stderr if raw else sys.stdout)

    async def work(node: Node) -> int:
        heard = node.player(player)
        writers: list[PcmWriter] = []
        async with aclosing(heard.events()) as events:
            first = await anext(events)  # what is wrong is raised here, before a file is written over
            try:
                if save is not None:
                    writers.append(WavWriter(save))
                if raw:
                    writers.append(await open_raw_writer(sys.stdout.buffer))
                listening = _Listening(display, writers, first)
                # The events came first, so the TrackStart that the first listener brings about is not missed.
                async with heard.audio(max_latency_ms=_MAX_LATENCY_MS) as audio:
                    display.say(f"listening to {player} on {at.url}; Ctrl-C stops")
                    return await listening.run(events, audio, wait_s)
            finally:
                await _finish(writers)

    try:
        return run(at, work)
    except OutputEndedError as error:
        return complain(str(error))


async def _finish(writers: Sequence[PcmWriter]) -> None:
    """Raises the last `OutputEndedError`."""
    failure = None
    for writer in writers:
        try:
            await writer.close()
        except OutputEndedError as error:
            failure = error
    if failure is not None:
        raise failure


class _Listening:
    """What is heard and shown of a player. `first` is the event with its whole state."""

    def __init__(self, display: Display, writers: Sequence[PcmWriter], first: Event) -> None:
        self._display = display
        self._writers = writers
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
        return ExitCode.OK

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
            for writer in self._writers:
                writer.write(frame.payload)

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

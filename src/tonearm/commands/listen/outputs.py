"""Where the received PCM goes: a file, a program, or nowhere."""

import asyncio
import os
import stat
import wave
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from tonearm.core.frame import CHANNELS, FRAME_BYTES, FRAMES_PER_SECOND, SAMPLE_BYTES, SAMPLE_RATE_HZ

# RIFF sizes are 32 bits; the rest is room for the header.
_LARGEST_WAV_BYTES: Final = (1 << 32) - 4096
_RAW_BACKLOG_BYTES: Final = FRAMES_PER_SECOND * FRAME_BYTES  # one second, as the node keeps for a listener
_RAW_CLOSE_PATIENCE_S: Final = 1.0


class OutputEndedError(Exception):
    """The output takes no more; the message is a sentence for the user."""


class Output(Protocol):
    def write(self, pcm: bytes) -> None:
        """Raises `OutputEndedError`."""
        ...

    async def close(self) -> None:
        """Gives on what is still kept. Raises `OutputEndedError`."""
        ...


class WavOutput:
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


class FileOutput:
    """PCM into an open file that never makes a writer wait."""

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


class PipeOutput(asyncio.BaseProtocol):
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


async def open_raw_output(stdout: BinaryIO) -> Output:
    """The output for PCM on `stdout`. Raises `OutputEndedError` for a terminal."""
    if stdout.isatty():
        raise OutputEndedError("--raw writes audio; pipe it into a program: | aplay -f S16_LE -r 48000 -c 2")
    mode = os.fstat(stdout.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return FileOutput(stdout)
    _, output = await asyncio.get_running_loop().connect_write_pipe(PipeOutput, stdout)
    return output

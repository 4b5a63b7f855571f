"""Where the heard PCM goes."""

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


class OutputEndedError(Exception):
    """The output takes no more; the message is a sentence for the user."""


class Output(Protocol):
    def write(self, pcm: bytes) -> None:
        """Raises `OutputEndedError`."""
        ...

    def close(self) -> None: ...


class WavOutput:
    """A WAV file. Its header gets the true length in `close`. Raises `OutputEndedError`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written_bytes = 0
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise OutputEndedError(f"{path} cannot be written: {error.strerror or error}") from None
        self._wave = wave.open(self._file, "wb")  # noqa: SIM115 - closed by `close`
        self._wave.setnchannels(CHANNELS)
        self._wave.setsampwidth(SAMPLE_BYTES)
        self._wave.setframerate(SAMPLE_RATE_HZ)

    def write(self, pcm: bytes) -> None:
        if self._written_bytes + len(pcm) > _LARGEST_WAV_BYTES:
            raise OutputEndedError(f"{self._path} is as large as a WAV file can be")
        try:
            self._wave.writeframesraw(pcm)
        except OSError as error:
            raise OutputEndedError(f"{self._path} cannot be written: {error.strerror or error}") from None
        self._written_bytes += len(pcm)

    def close(self) -> None:
        try:
            with self._file:
                self._wave.close()
        except OSError as error:
            raise OutputEndedError(f"{self._path} cannot be finished: {error.strerror or error}") from None


class FileOutput:
    """PCM into an open file that never makes a writer wait."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, pcm: bytes) -> None:
        try:
            self._file.write(pcm)
            self._file.flush()
        except OSError as error:
            raise OutputEndedError(f"stdout cannot be written: {error.strerror or error}") from None

    def close(self) -> None:
        """The file belongs to the process."""


class PipeOutput:
    """PCM into a pipe without waiting for its reader: what it does not take within a second is left out."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport

    def write(self, pcm: bytes) -> None:
        if self._transport.is_closing():
            raise OutputEndedError("the program that reads the audio has ended")
        if self._transport.get_write_buffer_size() < _RAW_BACKLOG_BYTES:
            self._transport.write(pcm)

    def close(self) -> None:
        self._transport.abort()


async def open_raw_output(stdout: BinaryIO) -> Output:
    """The output for PCM on `stdout`. Raises `OutputEndedError` for a terminal."""
    if stdout.isatty():
        raise OutputEndedError("--raw writes audio data; pipe it into a program: | aplay -f S16_LE -r 48000 -c 2")
    mode = os.fstat(stdout.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return FileOutput(stdout)
    transport, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.BaseProtocol, stdout)
    return PipeOutput(transport)

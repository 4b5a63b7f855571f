"""Plays sound on this machine: writes PCM into the stdin of an audio program, and never waits for that program."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO, Final

from tonearm.client import TonearmError
from tonearm.core.frame import CHANNELS, FRAME_BYTES, FRAMES_PER_SECOND, SAMPLE_RATE_HZ
from tonearm.core.printable import one_line

# What each is told, so that it plays PCM (48 kHz, stereo, signed 16 bits, little-endian) from its stdin; best first.
PROGRAMS: Final[Mapping[str, str]] = {
    "mpv": f"--no-video --no-input-terminal --msg-level=all=error --cache=no --demuxer=rawaudio "
    f"--demuxer-rawaudio-format=s16le --demuxer-rawaudio-rate={SAMPLE_RATE_HZ} --demuxer-rawaudio-channels=stereo -",
    "ffplay": f"-nodisp -autoexit -nostats -loglevel error -infbuf -af adelay=200:all=1 -f s16le "
    f"-ar {SAMPLE_RATE_HZ} -ch_layout stereo -i -",
    "pw-play": f"--raw --format=s16 --rate={SAMPLE_RATE_HZ} --channels={CHANNELS} -",
    "paplay": f"--raw --format=s16le --rate={SAMPLE_RATE_HZ} --channels={CHANNELS} --latency-msec=200",
    "aplay": f"-q -t raw -f S16_LE -r {SAMPLE_RATE_HZ} -c {CHANNELS} -",
}

_PLAYS_OUT_WITHIN_S: Final = 2.0  # what the pipe and the program keep at the end of a queue
_ENDS_WITHIN_S: Final = 0.5
_KEPT_BYTES: Final = FRAMES_PER_SECOND * FRAME_BYTES  # one second, as the node keeps for a listener


def found_program(wanted: str | None) -> str | None:
    """The name of the first installed program, or None. Raises `TonearmError` if `wanted` is not installed."""
    if wanted:
        if shutil.which(wanted) is None:
            raise TonearmError(f"{wanted} was not found on the PATH; install it, or leave out --output.")
        return wanted
    return next((name for name in PROGRAMS if shutil.which(name) and _can(name)), None)


def no_program(stream_url: str) -> str:
    """The message when no program is installed."""
    return f"No program that plays sound was found ({', '.join(PROGRAMS)}); install one, or listen at {stream_url}."


def _can(name: str) -> bool:
    """Whether the program can be used: pw-play must be new enough to read PCM from a pipe."""
    if name != "pw-play":
        return True
    try:
        asked = subprocess.run([name, "--help"], capture_output=True, timeout=2.0, check=False)  # noqa: S603 - one of PROGRAMS
        return b"--raw" in asked.stdout
    except (OSError, subprocess.TimeoutExpired):
        return False


class OutputEndedError(Exception):
    """The output accepts no more data. The message is a sentence for the user."""


class PipeWriter:
    """Writes PCM to the pipe or file of `descriptor`, without waiting for a reader."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""
        os.set_blocking(descriptor, False)
        with suppress(OSError):  # no pipe; or this user's pipes are as large as they may be
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _KEPT_BYTES)

    def write(self, pcm: bytes) -> bool:
        """Writes whole frames. Returns False if they were dropped because the reader is a second behind. Raises
        `OutputEndedError`."""
        try:
            self._rest = self._rest[os.write(self._descriptor, self._rest) :] if self._rest else b""
            if not self._rest:
                self._rest = pcm[os.write(self._descriptor, pcm) :]
                return True
        except BlockingIOError:
            pass
        except BrokenPipeError:
            raise OutputEndedError("The program that reads the audio has ended.") from None
        except OSError as error:
            raise OutputEndedError(f"The audio cannot be written: {error.strerror}.") from None
        return False

    async def close(self) -> None:
        """Does nothing: the caller closes the descriptor."""


class Speaker:
    """Plays through `program`, which starts with the first frame. If it fails, `tell` gets a sentence, and nothing is
    played any more."""

    def __init__(self, program: str, tell: Callable[[str], object]) -> None:
        self._program = program
        self._tell = tell
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: PipeWriter | None = None
        self._is_silent = self._has_told_of_lack = False
        self.plays_out = False  # at the end: what the program has not played yet is heard first

    def write(self, pcm: bytes) -> None:
        """Writes one frame. Frames that the program does not accept within a second are dropped."""
        if self._is_silent:
            return
        try:
            self._pipe = self._pipe or self._started()
            if not self._pipe.write(pcm) and not self._has_told_of_lack:
                self._has_told_of_lack = True
                self._tell(f"{self._program} is too slow; sound that it does not take in time is dropped.")
        except OutputEndedError:
            self._end(0.0)
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").split("\n")
            why = next((f": {one_line(line)}" for line in reversed(said) if line.strip()), "")
            self._tell(f"{self._program} ended unexpectedly{why}; there is no more sound here.")
        except OSError as error:
            self._is_silent = True
            self._tell(f"{self._program} cannot be started: {error.strerror}; there is no sound here.")

    def _started(self) -> PipeWriter:
        # In a session of its own: keys and Ctrl-C are for the command, which ends the program.
        self._process = subprocess.Popen(  # noqa: S603 - one of PROGRAMS
            [self._program, *PROGRAMS[self._program].split()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        return PipeWriter(self._process.stdin.fileno())

    async def close(self) -> None:
        """Ends the program."""
        self._end(_PLAYS_OUT_WITHIN_S if self.plays_out else 0.0)
        self._errors.close()

    def _end(self, patience_s: float) -> None:
        self._is_silent = True
        if (process := self._process) is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        for end, within_s in ((process.terminate, patience_s), (process.kill, _ENDS_WITHIN_S)):
            try:
                process.wait(within_s)
            except subprocess.TimeoutExpired:
                end()
        process.wait()

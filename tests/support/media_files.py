"""Files in memory as sources of a decoder, and what comes out of them."""

import io
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.audio_files import Signal
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.worker.media.media import Media, open_media
from tonearm.worker.reading.reader import MediaReader

Samples = npt.NDArray[np.int16]


class UnseekableReader:
    """Bytes that come in order only, as from a server without range requests; at most so many at a time, as a network
    does at the pace of the sound; `then` the same bytes for ever."""

    def __init__(self, file: bytes, most_bytes: int = sys.maxsize, *, then: bytes = b"") -> None:
        self._file = io.BytesIO(file)
        self._most_bytes = most_bytes
        self._then = then

    def read(self, n: int) -> bytes:
        n = min(n, self._most_bytes)
        return self._file.read(n) or (self._then * (n // max(len(self._then), 1) + 1))[:n]

    def seek(self, offset: int) -> int:
        raise AssertionError(f"asked to jump to {offset}")

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return False


class CountingReader(io.BytesIO):
    """Counts what is read of it."""

    read_bytes = 0

    def read(self, n: int | None = -1, /) -> bytes:
        data = super().read(n)
        self.read_bytes += len(data)
        return data


LOST = PlayError(PlayFailure(FailureCode.CONNECTION_LOST, Stage.READ, "The connection was lost.", "Try again."))


class FailingReader(io.BytesIO):
    """A file whose reading fails at a position, with an error of its own."""

    def __init__(self, file: bytes, fail_at: int, *, can_jump: bool = True) -> None:
        super().__init__(file)
        self._can_jump = can_jump
        self._fail_at = fail_at
        self.reads_after_failure = -1

    def read(self, n: int | None = -1, /) -> bytes:
        if self.reads_after_failure >= 0 or self.tell() >= self._fail_at:
            self.reads_after_failure += 1
            raise LOST
        return super().read(min(n or 0, self._fail_at - self.tell()))

    def seekable(self) -> bool:
        return self._can_jump


def open_bytes(
    file: bytes,
    *,
    reader: MediaReader | None = None,
    is_live: bool = False,
    audio: str = "",
    size_bytes: int | None = None,
    is_remote: bool = False,
) -> Media:
    return open_media(
        reader or io.BytesIO(file),
        name="song",
        content_type=None,
        size_bytes=size_bytes or len(file) or None,
        is_live=is_live,
        audio=audio,
        is_remote=is_remote,
    )


def decode_rest(media: Media, turn_samples: int = 4800) -> Samples:
    """Everything up to the end, shape (samples, 2)."""
    return samples_of(b"".join(iter(lambda: media.decode(turn_samples), b"")))


def decode_until_error(media: Media) -> tuple[Samples, PlayError]:
    """What is decoded before the source fails, and its error."""
    parts: list[bytes] = []
    try:
        while part := media.decode(4800):
            parts.append(part)
    except PlayError as error:
        return samples_of(b"".join(parts)), error
    raise AssertionError("the source did not fail")


def decode_bytes(file: bytes) -> Samples:
    media = open_bytes(file)
    try:
        return decode_rest(media)
    finally:
        media.close()


def samples_of(pcm: bytes) -> Samples:
    return np.frombuffer(pcm, "<i2").reshape(-1, 2)


def snr_db(got: Samples, wanted: Signal) -> float:
    """Signal to noise of `got` against `wanted` (full scale 1.0), compared sample by sample without any shift."""
    length = min(len(got), len(wanted))
    error = got[:length] / 32768 - wanted[:length]
    return float(10 * np.log10(np.mean(wanted[:length] ** 2) / (np.mean(error**2) + 1e-20)))


def loudest_hz(got: npt.NDArray[Any]) -> float:
    """Of the sines in the first channel."""
    spectrum = np.abs(np.fft.rfft(got[:, 0] * np.hanning(len(got))))
    return float(spectrum.argmax() * 48_000 / len(got))

"""Interrupted sources: the audio before the interruption is decoded, then the reason is raised."""

from collections.abc import Callable

import pytest

from tests.support.audio_files import Signal, flac, mp3, music, opus, pcm_of, wav
from tests.support.media_files import decode_until_error
from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.worker.media.media import open_media

LOST = PlayError(PlayFailure(FailureCode.CONNECTION_LOST, Stage.READ, "The connection was lost.", "Try again."))


class BreakingReader:
    """Gives so many bytes and then raises, for ever."""

    def __init__(self, data: bytes, breaks_after: int) -> None:
        self._data = data[:breaks_after]
        self._offset = 0

    def read(self, n: int) -> bytes:
        if self._offset >= len(self._data):
            raise LOST
        data = self._data[self._offset : self._offset + n]
        self._offset += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        raise OSError("no seeking here")

    def tell(self) -> int:
        return self._offset

    def seekable(self) -> bool:
        return False


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.9])
def test_a_wav_is_heard_as_far_as_it_came_also_within_what_is_read_to_open_it(kept: float) -> None:
    signal = music(2.0)
    data, pcm = wav(signal), pcm_of(signal)
    cut = int(len(data) * kept)
    media = open_media(BreakingReader(data, cut), name="song", content_type=None, size_bytes=len(data))
    samples, error = decode_until_error(media)
    media.close()
    assert error is LOST
    decoded = samples.astype("<i2").tobytes()
    assert decoded == pcm[: len(decoded)]
    assert len(decoded) > cut - 8192


@pytest.mark.parametrize("encode", [mp3, flac, opus])
def test_packets_that_came_whole_are_heard(encode: Callable[[Signal], bytes]) -> None:
    data = encode(music(4.0))
    media = open_media(BreakingReader(data, len(data) // 2), name="song", content_type=None, size_bytes=None)
    samples, error = decode_until_error(media)
    media.close()
    assert error is LOST
    seconds = len(samples) / 48_000
    assert 0.9 < seconds < 2.7  # Ogg comes in pages of a second


def test_too_little_to_be_anything_tells_why_it_is_so_little() -> None:
    data = mp3(music(1.0))
    with pytest.raises(PlayError) as caught:
        open_media(BreakingReader(data, 300), name="song", content_type=None, size_bytes=None)
    assert caught.value is LOST

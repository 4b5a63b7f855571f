"""Sources that cannot be played, or not to their end: the error for the user, and the audio that is decoded anyway."""

import io
import random
import re
import struct
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from tests.support.audio_files import (
    encoded,
    flac,
    id3,
    m4a,
    mp3,
    music,
    opus,
    synchsafe,
    tone,
    video_without_sound,
    wav,
)
from tests.support.media_files import (
    LOST,
    FailingReader,
    UnseekableReader,
    decode_bytes,
    decode_rest,
    decode_until_error,
    open_bytes,
)
from tests.worker.media.test_media_seeking import file_and_sound
from tonearm.core.failure import FailureCode, PlayError, PlayFailure
from tonearm.worker.media.formats import limit_allocation_size
from tonearm.worker.media.media import open_media
from tonearm.worker.reading.reader import MediaReader


@pytest.fixture(autouse=True)
def _limits() -> None:
    """As in a decoder process. It holds for the rest of this process; no test needs more."""
    limit_allocation_size()


def failure_of_opening(file: bytes | MediaReader, content_type: str | None = None) -> PlayFailure:
    reader, size_bytes = (io.BytesIO(file), len(file)) if isinstance(file, bytes) else (file, None)
    with pytest.raises(PlayError) as caught:
        open_media(reader, name="song", content_type=content_type, size_bytes=size_bytes)
    failure = caught.value.failure
    assert failure.message
    assert failure.hint
    return failure


# A FLAC header with the largest of all values.
STREAM_INFO = struct.pack(">HH", 16, 65535) + bytes(6)
STREAM_INFO += (655_350 << 44 | 7 << 41 | 31 << 36 | 0xF_FFFF_FFFF).to_bytes(8, "big") + bytes(16)
ABSURD_FLAC = b"fLaC\x80\x00\x00\x22" + STREAM_INFO + b"\xff\xf8\xc9\x18" + bytes(60)
OVERSIZED_TABLE = b"fLaC\x00\x00\x00\x22" + STREAM_INFO + b"\x83\xff\xff\xff" + bytes(60)
INDEX_LAST = ("index at the end", "range requests")
ENDLESS_TAG = b"ID3\x04\x00\x00" + synchsafe(2**28 - 1)


@pytest.mark.parametrize("seed", range(6))
def test_random_bytes_are_no_mp3_even_when_they_begin_like_one(seed: int) -> None:
    noise = random.Random(seed).randbytes(60_000)
    for file in (noise, b"\xff\xfb\x90\x64" + noise, id3(texts={"TIT2": b"\x00Title"}) + noise):
        assert failure_of_opening(file).code is FailureCode.NOT_AUDIO


def test_a_text_instead_of_a_file_is_named_as_such() -> None:
    assert "text page" in failure_of_opening(b"Nothing here.\n" * 9, "text/plain; charset=utf-8").hint


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        (lambda: b"", FailureCode.EMPTY, ()),
        (lambda: video_without_sound(), FailureCode.NO_AUDIO_STREAM, ()),
        (lambda: encoded("matroska", "tta", tone(440)), FailureCode.UNSUPPORTED_CODEC, ("tta",)),
        (lambda: ABSURD_FLAC, FailureCode.LIMIT_EXCEEDED, ()),
        (lambda: OVERSIZED_TABLE, FailureCode.NOT_AUDIO, ()),
        (lambda: wav(music(0.1), 500_000), FailureCode.LIMIT_EXCEEDED, ("500000 Hz",)),
        (lambda: wav(music(0.1), 1000), FailureCode.LIMIT_EXCEEDED, ("1000 Hz",)),
        (lambda: wav(music(0.1, channels=9)), FailureCode.LIMIT_EXCEEDED, ("9 channels",)),
        (lambda: UnseekableReader(ENDLESS_TAG, then=bytes(1000)), FailureCode.LIMIT_EXCEEDED, ("32 MiB",)),
        (lambda: UnseekableReader(m4a(music(), index_first=False)), FailureCode.LIMIT_EXCEEDED, INDEX_LAST),
    ],
)
def test_what_cannot_be_played_is_named(
    given: Callable[[], bytes | MediaReader], code: FailureCode, words: tuple[str, ...]
) -> None:
    failure = failure_of_opening(given())
    assert failure.code is code
    for part in words:
        assert part in failure.message


@pytest.mark.parametrize("then", [bytes(1000), b"OggS", b"OggS\x00", b"fLaC", b"\xff\xfb"])
def test_endless_junk(then: bytes) -> None:
    failure = failure_of_opening(UnseekableReader(then, then=then))
    assert failure.code in (FailureCode.NOT_AUDIO, FailureCode.LIMIT_EXCEEDED, FailureCode.CORRUPT)


def test_sound_that_turns_into_endless_junk_ends_with_an_error() -> None:
    media = open_bytes(b"", reader=UnseekableReader(opus(music()), then=b"OggS\x00\x01" + bytes(58)))
    decoded, error = decode_until_error(media)
    assert len(decoded) >= 47_000
    assert error.failure.code in (FailureCode.LIMIT_EXCEEDED, FailureCode.CORRUPT)


def test_bad_packets_are_stepped_over_and_half_a_file_plays_as_far_as_it_goes() -> None:
    file = mp3(tone(997, 5.0, 44_100))
    assert len(decode_bytes(file[: len(file) // 2])) == pytest.approx(2.5 * 48_000, rel=0.03)
    damaged = bytearray(file)
    for position in range(20_000, len(file), 6000):
        damaged[position : position + 8] = b"\x55" * 8
    assert len(decode_bytes(bytes(damaged))) > 4.5 * 48_000


def test_sound_that_becomes_only_bad_packets_ends_as_corrupt_after_what_was_good() -> None:
    file = bytearray(flac(music(20.0), codec_options={"frame_size": "1024"}))
    noise = np.random.default_rng(1)
    # The packets keep their headers, so that they are found, and their contents do not decode.
    frames = [found.start() for found in re.finditer(rb"\xff\xf8.{1000}", file, re.DOTALL)]
    for at, next_at in pairwise(frames[len(frames) // 4 :]):
        file[at + 10 : next_at] = noise.bytes(next_at - at - 10)
    media = open_bytes(bytes(file))
    decoded, error = decode_until_error(media)
    assert error.failure.code is FailureCode.CORRUPT
    assert len(decoded) > 3 * 48_000
    with pytest.raises(PlayError):
        media.decode(4800)


KINDS = ("mp3", "flac", "opus", "wav", "aac in mp4")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fail_at", [0, 10, 5000])
def test_an_error_of_the_reader_while_opening_comes_out_unchanged(kind: str, fail_at: int) -> None:
    file, _ = file_and_sound(kind)
    reader = FailingReader(file, fail_at)
    with pytest.raises(PlayError) as caught:
        # A container may have had enough already: then it comes with the sound.
        decode_rest(open_bytes(file, reader=reader))
    assert caught.value is LOST
    assert reader.reads_after_failure == 0


@pytest.mark.parametrize(("kind", "kept"), [*((kind, 0.75) for kind in KINDS), ("wav", 0.1)])
def test_an_error_of_the_reader_comes_after_all_that_was_there(
    kind: str, kept: float, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also within what is read to open it."""
    file, wanted = file_and_sound(kind)
    media = open_bytes(file, reader=FailingReader(file, int(len(file) * kept), can_jump=False))
    got, error = decode_until_error(media)
    assert error is LOST
    assert len(got) > 0.8 * kept * len(wanted)
    # The resampler's last half filter and a lossy codec's last packet have nothing behind them to build on.
    assert np.array_equal(got[:-3000], wanted[: len(got) - 3000])
    with pytest.raises(PlayError):
        media.decode(4800)
    media.close()
    assert capfd.readouterr().err == ""


def test_an_error_of_the_reader_while_jumping_comes_out_unchanged() -> None:
    file = flac(music(4.0))
    media = open_bytes(file, reader=FailingReader(file, len(file) // 3))
    with pytest.raises(PlayError) as caught:
        media.seek(3 * 48_000)
    assert caught.value is LOST

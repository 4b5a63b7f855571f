"""Files with several sounds in them: which one plays, and what is told of it."""

import pytest

from tests.support.audio_files import Sound, several_sounds, tone
from tests.support.media_files import decode_rest, loudest_hz, open_bytes
from tonearm.core.failure import FailureCode, PlayError
from tonearm.core.track_info import AudioChoice

A, B, C = (tone(frequency_hz, 2.0) for frequency_hz in (440, 880, 1320))
HEARD_HZ = {"A": 440, "B": 880, "C": 1320}


# What ffmpeg says: it plays what is marked as the default, else what has most channels, else the first. Matroska says
# the same of its FlagDefault (RFC 9559, 5.1.4.1.5), which is set where it is not written.
@pytest.mark.parametrize(
    ("container", "sounds", "wanted", "heard", "choice"),
    [
        ("matroska", [Sound(A), Sound(B)], "", "A", (1, 2)),
        ("matroska", [Sound(A), Sound(B, is_default=True)], "", "B", (2, 2)),
        ("matroska", [Sound(A, is_default=True), Sound(B, is_default=True)], "", "A", (1, 2)),
        ("matroska", [Sound(A, "tta"), Sound(B)], "", "B", (2, 2)),
        ("matroska", [Sound(A, "tta", is_default=True), Sound(B), Sound(C)], "", "B", (2, 3)),
        ("matroska", [Sound(A, "tta"), Sound(B), Sound(C, is_default=True)], "", "C", (3, 3)),
        ("matroska", [Sound(A), Sound(B, is_default=True), Sound(C)], "3", "C", (3, 3)),
        ("matroska", [Sound(A, language="eng"), Sound(B, language="ger")], "ger", "B", (2, 2, "ger")),
        ("matroska", [Sound(A, language="eng"), Sound(B, language="ger")], "GER", "B", (2, 2, "ger")),
        ("matroska", [Sound(A, language="eng"), Sound(B, language="ger")], "1", "A", (1, 2, "eng")),
        ("mp4", [Sound(A), Sound(B, is_default=True)], "", "B", (2, 2)),
        ("mp4", [Sound(A), Sound(B, "alac")], "2", "B", (2, 2)),
        ("mp4", [Sound(A, language="eng"), Sound(B, language="deu")], "deu", "B", (2, 2, "deu")),
        ("mpegts", [Sound(A, "mp2"), Sound(B)], "2", "B", (2, 2)),
        ("mpegts", [Sound(A, "mp2", "eng"), Sound(B, "mp2", "fra")], "fra", "B", (2, 2, "fra")),
        ("avi", [Sound(A, "libmp3lame"), Sound(B, "libmp3lame")], "2", "B", (2, 2)),
        ("matroska", [Sound(A)], "1", "A", None),
        ("matroska", [Sound(A, language="e\x1bn\u202e-GB"), Sound(B)], "", "A", (1, 2, "en-GB")),
    ],
)
def test_which_one_plays(
    container: str, sounds: list[Sound], wanted: str, heard: str, choice: tuple[int, int] | None
) -> None:
    file = several_sounds(container, *sounds, with_video=container in ("matroska", "mp4"))
    media = open_bytes(file, audio=wanted)
    found = media.facts.form.choice
    media.seek(24_000)
    assert loudest_hz(decode_rest(media)[4800:48_000]) == pytest.approx(HEARD_HZ[heard], abs=3)
    assert found == (None if choice is None else AudioChoice(*choice))


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("3", "there is no #audio=3 in it, but 1 (eng), 2"),
        ("0", "there is no #audio=0"),
        ("fr", "there is no #audio=fr"),
        ("9" * 35, "there is no #audio=999"),
    ],
)
def test_one_that_is_not_there(wanted: str, told: str) -> None:
    file = several_sounds("matroska", Sound(A, language="eng"), Sound(B))
    with pytest.raises(PlayError) as caught:
        open_bytes(file, audio=wanted)
    assert caught.value.failure.code == FailureCode.NO_AUDIO_STREAM
    assert told in caught.value.failure.message

"""Every format under a filter that ends the process at a call that nothing foresees.

A new version of a library that asks the kernel for more is seen here at once: the process dies of SIGSYS, and its
traceback tells where.
"""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from tests.support.audio_files import encoded, flac, id3, mp3, music, opus, tone, video_without_sound, wav
from tests.support.decoder_driver import DecoderDriver, SentAudio, confined_decoder, open_order
from tests.support.hostile import Hostile
from tests.support.strange.files import strange_file
from tests.worker.media.test_media_formats import LOSSLESS, LOSSY, OTHERS, at
from tonearm.core.filters import BAND_COUNT, Filters
from tonearm.decoder.messages import CloseSession, Failed, Opened, Plan
from tonearm.sandbox.report import SandboxMode

EQUALIZED = Filters(0.7, (3.0, *(0.0,) * (BAND_COUNT - 2), -3.0))


def formats() -> Iterator[tuple[str, bytes]]:
    for name, (_, make) in (LOSSLESS | LOSSY | OTHERS).items():
        yield name, make()
    fragments = {"movflags": "frag_keyframe+empty_moov", "frag_duration": "500000"}
    yield "mp4 in fragments", encoded("mp4", "aac", tone(997, 1.0), options=fragments)
    yield "six channels", flac(music(1.0, channels=6))
    yield "8 kHz mu-law", wav(tone(997, 1.0, 8000), 8000, coding="mulaw")
    yield "old tags", id3(texts={"TIT2": b"\x00K\xe4se", "TPE1": b"\x01\xff\xfeK\x00"}) + mp3(at(44_100))
    yield "a service's name", encoded("mpegts", "aac", tone(997, 1.0), tags={"service_name": "Käse", "title": "Käse"})
    yield "two links", opus(tone(500, 1.0)) + opus(tone(800, 1.0))


def damaged(first: int) -> Iterator[tuple[str, bytes]]:
    for number in range(first, first + 20):
        strange = strange_file(number)
        yield str(strange), strange.data
    for name, file in (("mp3", mp3(at(44_100))), ("ogg", opus(music(2.0)))):
        yield f"half of an {name}", file[: len(file) // 2]
    yield "nothing", b""
    yield "a page", b"<!DOCTYPE html><html><body>Hello</body></html>"
    yield "a film without sound", video_without_sound()


def played(driver: DecoderDriver, session: int, file: bytes, path: Path | None, filters: Filters) -> bytes:
    """Opens the file, by a descriptor of `path` or in answer to requests, jumps half a second in, plays to the end."""
    driver.open_session(session, filters)
    start_sample = 24_000 if filters is EQUALIZED else 0
    if path is not None:
        path.write_bytes(file)
        driver.open_file(path, session, start_sample=start_sample)
    else:
        driver.open_bytes(file, session, start_sample=start_sample)
    driver.send(Plan(session, 2, 1, 0, 1, 1, None, filters))
    told: list[Opened | Failed] = []
    while not told:
        told = [told for told in driver.step() if isinstance(told, Opened | Failed) and told.session == session]
    audio = SentAudio(driver, session)
    if isinstance(told[0], Opened):
        audio.play(1000)
    driver.send(CloseSession(session))
    driver.received.clear()
    return audio.pcm


@pytest.mark.parametrize("kind", ["formats", "damaged"])
@pytest.mark.parametrize("way", ["descriptor", "requests"])
def test_the_sandbox_is_not_left(kind: str, way: str, tmp_path: Path) -> None:
    has_path = way == "descriptor"
    path = tmp_path / "file" if has_path else None
    filters = Filters() if has_path else EQUALIZED
    with confined_decoder(is_silent=kind != "damaged") as driver:
        files = formats() if kind == "formats" else damaged(0 if has_path else 20)
        for session, (name, file) in enumerate(files, start=1):
            assert played(driver, session, file, path, filters) or kind == "damaged", name


def test_a_call_that_nothing_foresees_is_seen(tmp_path: Path) -> None:
    """The mode that the test above relies on."""
    driver = DecoderDriver(sandbox=SandboxMode.TRAP, variables=Hostile(tmp_path / "hostile").variables)
    try:
        driver.ready()
        driver.open_session()
        driver.send(structs.replace(open_order(1, 1, 10), name="attack.wav"))
        status, stderr = driver.wait_for_end()
    finally:
        driver.close()
    assert status == -signal.SIGSYS
    assert "attack.py" in stderr

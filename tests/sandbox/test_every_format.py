"""Every format under a filter that ends the process at a call that nothing foresees, beside a process without one.

A new version of a library that asks the kernel for more is seen here at once: the process dies of SIGSYS, and its
traceback tells where.
"""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import structs

from tests.support.audio_files import encoded, flac, id3, mp3, music, opus, tone, video_without_sound, vorbis, wav
from tests.support.decoder_driver import DecoderDriver, SentAudio, confined_and_free, open_order
from tests.support.hostile import Hostile
from tests.support.mutation import mutated_file
from tests.worker.media.test_media_formats import LOSSLESS, LOSSY, at
from tonearm.core.filters import BAND_COUNT, Filters
from tonearm.decoder.messages import CloseSession, Failed, Opened, Plan, Titled
from tonearm.sandbox.report import SandboxMode

EQUALIZED = Filters(0.7, (3.0, *(0.0,) * (BAND_COUNT - 2), -3.0))


@dataclass
class Outcome:
    told: list[object]
    pcm: bytes


def formats() -> Iterator[tuple[str, bytes]]:
    for name, (_, make) in LOSSLESS.items():
        yield name, make()
    for name, (_, make_lossy, _) in LOSSY.items():
        yield name, make_lossy()
    for container, codec, more in (
        ("adts", "aac", {}),
        ("mpegts", "aac", {}),
        ("mpegts", "mp2", {"with_video": True}),
        ("flv", "libmp3lame", {}),
        ("wv", "wavpack", {}),
        ("ac3", "ac3", {"bit_rate": 192_000}),
        ("asf", "wmav2", {"bit_rate": 128_000}),
        ("avi", "libmp3lame", {"with_video": True}),
        ("mp4", "aac", {"options": {"movflags": "frag_keyframe+empty_moov", "frag_duration": "500000"}}),
    ):
        yield f"{container} with {codec}", encoded(container, codec, tone(997, 1.0, 44_100), 44_100, **more)
    yield "vorbis", vorbis(at(44_100))
    yield "six channels", flac(music(1.0, channels=6))
    yield "8 kHz mu-law", wav(tone(997, 1.0, 8000), 8000, coding="mulaw")
    yield "old tags", id3(texts={"TIT2": b"\x00K\xe4se", "TPE1": b"\x01\xff\xfeK\x00"}) + mp3(at(44_100))
    yield "a service's name", encoded("mpegts", "aac", tone(997, 1.0), tags={"service_name": "Käse", "title": "Käse"})
    yield "two links", opus(tone(500, 1.0)) + opus(tone(800, 1.0))


def damaged(first: int) -> Iterator[tuple[str, bytes]]:
    for number in range(first, first + 20):
        kind, file = mutated_file(number)
        yield f"{kind}, damaged, {number}", file
    for name, file in (("mp3", mp3(at(44_100))), ("ogg", opus(music(2.0)))):
        yield f"half of an {name}", file[: len(file) // 2]
    yield "nothing", b""
    yield "a page", b"<!DOCTYPE html><html><body>Hello</body></html>"
    yield "a film without sound", video_without_sound()


def played(driver: DecoderDriver, session: int, file: bytes, path: Path | None, filters: Filters) -> Outcome:
    """Opens the file, by a descriptor of `path` or in answer to requests, jumps half a second in, plays to the end."""
    driver.open_session(session, filters)
    start_sample = 24_000 if filters is EQUALIZED else 0
    if path is not None:
        path.write_bytes(file)
        driver.send_with_descriptor_of(
            open_order(session, 1, len(file), start_sample=start_sample, has_descriptor=True), path
        )
    else:
        driver.open_bytes(file, session, start_sample=start_sample)
    # At once: a source that is already there comes in with a ramp.
    driver.send(Plan(session, 2, 1, 0, 1, 1, None, filters))
    first: Opened | Failed | None = None
    while first is None:
        driver.step()
        mine = [message for message in driver.received if getattr(message, "session", 0) == session]
        first = next((message for message in mine if isinstance(message, (Opened, Failed))), None)
    audio = SentAudio(driver, session)
    if isinstance(first, Opened):
        audio.play(1000)
    told = [message for message in driver.received if isinstance(message, (Opened, Failed, Titled))]
    driver.send(CloseSession(session))
    driver.received.clear()
    return Outcome([first, *told], audio.pcm)


@pytest.mark.parametrize("kind", ["formats", "damaged"])
@pytest.mark.parametrize("way", ["descriptor", "requests"])
def test_the_sandbox_is_neither_heard_nor_left(kind: str, way: str, tmp_path: Path) -> None:
    has_path = way == "descriptor"
    path = tmp_path / "file" if has_path else None
    filters = Filters() if has_path else EQUALIZED
    with confined_and_free(is_silent=kind != "damaged") as (confined, free):
        files = list(formats() if kind == "formats" else damaged(0 if has_path else 20))
        for session, (name, file) in enumerate(files, start=1):
            inside = played(confined, session, file, path, filters)
            outside = played(free, session, file, path, filters)
            assert inside.told == outside.told, name
            assert inside.pcm == outside.pcm, name
            assert kind == "damaged" or inside.pcm, name


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

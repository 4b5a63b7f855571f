"""Where timestamps jump ahead nothing is heard of the jump: what lies behind it follows what lies before it, and who
wants to begin in between begins behind it."""

import io
from collections.abc import Callable, Iterator
from typing import Final

import av
import numpy as np
import pytest

from tests.support.audio_files import encoded, flac, m4a, mp3, music, opus, vorbis
from tests.support.media_files import Samples, decode_bytes, decode_rest, open_bytes, samples_of
from tests.support.packet_source import PacketSource

SECOND: Final = 48_000
SECONDS: Final = 4.0
FROM_S, LATER_S = 1.5, 40.0  # longer than any way back that a seek takes
PAGES: Final = {"page_duration": "200000"}


def later(file: bytes, container: str, **options: str) -> bytes:
    """The same packets in this container; those behind the hole have later timestamps."""
    made = io.BytesIO()
    with av.open(io.BytesIO(file), "r") as source, av.open(made, "w", format=container, options=options) as target:
        stream = source.streams.audio[0]
        copied = target.add_stream_from_template(stream)
        for packet in source.demux(stream):
            if packet.pts is None or packet.dts is None:
                continue
            if packet.pts * packet.time_base >= FROM_S:
                ticks = round(LATER_S / packet.time_base)
                packet.pts, packet.dts = packet.pts + ticks, packet.dts + ticks
            packet.stream = copied
            target.mux(packet)
    return made.getvalue()


def flac_without_frames() -> bytes:
    """Frames 16 to 432, which are 40 s long, are lost."""
    frame_samples, sound = 4608, music(SECONDS)
    lost = np.zeros((417 * frame_samples, 2))
    whole = flac(np.concatenate((sound[: 16 * frame_samples], lost, sound[16 * frame_samples :])))
    with av.open(io.BytesIO(whole), "r") as source:
        frames = [bytes(packet) for packet in source.demux(audio=0) if packet.size]
    return b"".join((whole[: whole.index(frames[0])], *frames[:16], *frames[433:]))


AAC: Final = {"aac_pns": "0"}
FILES: dict[str, Callable[[], bytes]] = {
    "opus": lambda: later(opus(music(SECONDS)), "ogg", **PAGES),
    "vorbis": lambda: later(vorbis(music(SECONDS), 48_000), "ogg", **PAGES),
    "flac in ogg": lambda: later(encoded("ogg", "flac", music(SECONDS)), "ogg", **PAGES),
    "flac": flac_without_frames,
    "opus in webm": lambda: later(opus(music(SECONDS), container="webm"), "webm"),
    "vorbis in webm": lambda: later(vorbis(music(SECONDS), 48_000), "webm"),
    "mp3 in matroska": lambda: later(mp3(music(SECONDS), 48_000), "matroska"),
    "opus in mp4": lambda: later(opus(music(SECONDS), container="mp4"), "mp4"),
    "aac": lambda: later(m4a(music(SECONDS), 48_000, codec_options=AAC), "mp4"),
    "aac in fragments": lambda: later(
        m4a(music(SECONDS), 48_000, codec_options=AAC), "mp4", movflags="frag_keyframe+empty_moov"
    ),
    "aac in mpegts": lambda: later(m4a(music(SECONDS), 48_000, codec_options=AAC), "mpegts"),
}


@pytest.mark.parametrize("kind", FILES)
def test_nothing_is_heard_of_a_hole_and_a_seek_into_it_leads_behind_it(kind: str) -> None:
    """And one to before it or behind it leads where the timestamps say."""
    file = FILES[kind]()
    whole = decode_bytes(file)
    assert len(whole) == pytest.approx(SECONDS * SECOND, abs=SECOND / 3)
    for into_s in (1.0, 23.0, 42.1, 43.0):
        expected = into_s if into_s < FROM_S else max(FROM_S, into_s - LATER_S)
        for rest in sounds_from(file, round(into_s * SECOND)):
            # Where a codec's packets lie, and what each has lost with the one before it.
            found = place_of(rest, whole, round(expected * SECOND))
            assert found == pytest.approx(expected * SECOND, abs=0.35 * SECOND)
            assert len(rest) == pytest.approx(len(whole) - found, abs=2048)


def sounds_from(file: bytes, sample: int) -> Iterator[Samples]:
    """What is heard from there on; also that of its packets, if they can be passed through."""
    media = open_bytes(file)
    media.seek(sample)
    yield decode_rest(media)
    if media.facts.has_packets:
        store = PacketSource(file, sample).store
        yield samples_of(store.read(sample, store.end - sample))


def place_of(part: Samples, whole: Samples, around: int) -> int:
    """The sample of `whole` with which `part` begins, by what is heard from 0.1 s behind its beginning on."""
    first, length = SECOND // 10, 240
    sound = part[first : first + length, 0].astype(float)
    start = max(around - SECOND // 3, 0) + first
    searched = whole[start : around + SECOND // 3 + first + length, 0].astype(float)
    differences = np.sum((np.lib.stride_tricks.sliding_window_view(searched, length) - sound) ** 2, axis=1)
    place = int(np.argmin(differences))
    assert differences[place] < 0.01 * np.sum(sound**2), "nothing in the file sounds so"
    return start + place - first

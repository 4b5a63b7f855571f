"""Endless streams as the decoder sees them: how little it needs to begin, and what it says is changes from where on."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest

from tests.support.audio_files import Signal, encoded, live_mp3, music, opus, tone, vorbis
from tests.support.media_files import UnseekableReader, loudest_hz, samples_of
from tonearm.core.frame import SAMPLE_BLOCK_BYTES, SAMPLE_RATE_HZ
from tonearm.worker.media.facts import StreamTitles, TitleChange
from tonearm.worker.media.media import Media, open_media
from tonearm.worker.media.opus_packets import OpusPackets, SourcePacket
from tonearm.worker.reading.reader import MediaReader


def open_live(reader: MediaReader, titles: StreamTitles | None = None, *, content_type: str | None = None) -> Media:
    return open_media(reader, name="radio", content_type=content_type, size_bytes=None, is_live=True, titles=titles)


def adts(signal: Signal) -> bytes:
    return encoded("adts", "aac", signal, 44_100, bit_rate=128_000)


@pytest.mark.parametrize("make", [live_mp3, adts])
@pytest.mark.parametrize("start", [0, 10_001, 20_000, 30_003, 40_004])
def test_the_first_200_ms_need_little_more_than_their_own_bytes(make: Callable[[Signal], bytes], start: int) -> None:
    """At 128 kbit/s 200 ms are 3200 bytes. Stations begin in the middle of a frame, and so does who joins others at
    one."""
    reader = UnseekableReader(make(music(15.0, 44_100))[start:], 400)
    media = open_live(reader, content_type="audio/mpeg")
    pcm = b""
    while len(pcm) < SAMPLE_RATE_HZ // 5 * SAMPLE_BLOCK_BYTES:
        pcm += media.decode(SAMPLE_RATE_HZ // 10)
    media.close()
    assert reader.tell() <= 5600


def test_ogg_needs_its_first_pages_only() -> None:
    file = opus(music(5.0), bit_rate=128_000, options={"page_duration": "200000"})
    reader = UnseekableReader(file, 400)
    media = open_live(reader)
    assert media.decode(SAMPLE_RATE_HZ // 10)
    media.close()
    assert reader.tell() <= len(file) / 5 * 0.8


def title_changes(media: Media, titles: StreamTitles) -> tuple[list[TitleChange], bytes]:
    changes: list[TitleChange] = []
    pcm = b""
    while part := media.decode(4800):
        pcm += part
        changes += titles.take_changes()
    media.close()
    return changes, pcm


def rises_at(sample: int, pcm: bytes, seconds: float) -> None:
    """That the sound goes from 440 to 880 Hz at this sample, which is at about so many seconds."""
    samples = samples_of(pcm)
    assert abs(sample / SAMPLE_RATE_HZ - seconds) < 0.25
    assert 350 < loudest_hz(samples[sample - 24_000 : sample - 9600]) < 500
    assert 750 < loudest_hz(samples[sample + 9600 : sample + 24_000]) < 950


@pytest.mark.parametrize("make", [opus, vorbis, partial(encoded, "ogg", "flac")])
def test_a_chained_ogg_stream_tells_its_next_title(make: Callable[..., bytes]) -> None:
    titles = StreamTitles()
    file = make(tone(440, 2.0), tags={"title": "One", "artist": "Band"})
    file += make(tone(880, 2.0), tags={"title": "Two"})
    media = open_live(UnseekableReader(file), titles)
    facts = media.facts
    assert (facts.title, facts.author) == ("Band - One", None)
    assert (facts.length_ms, facts.is_stream, facts.is_seekable) == (0, True, False)
    changes, pcm = title_changes(media, titles)
    assert [title.title for title in changes if title.title != "Band - One"] == ["Two"]
    rises_at(changes[-1].sample, pcm, 2.0)


@pytest.mark.parametrize(("make", "garbage"), [(live_mp3, b""), (adts, b""), (live_mp3, bytes(12_000))])
def test_a_title_at_an_offset_is_heard_with_the_sound_that_lies_there(
    make: Callable[[Signal], bytes], garbage: bytes
) -> None:
    """Also where no frame begins for long; of titles that came at once the last one."""
    first, second = make(tone(440, 3.0, 44_100)), make(tone(880, 3.0, 44_100))
    titles = StreamTitles()
    for before, title in ((2, "One"), (1, "Another"), (0, "Two")):
        titles.expect(len(garbage + first) - before, title)
    media = open_live(UnseekableReader(garbage + first + second), titles, content_type="audio/mpeg")
    changes, pcm = title_changes(media, titles)
    assert [title.title for title in changes] == ["Two"]
    rises_at(changes[0].sample, pcm, 3.0)


def test_another_container_that_is_announced_as_mp3_is_read_from_its_first_byte_on() -> None:
    file = encoded("flv", "libmp3lame", music(3.0, 44_100), 44_100, bit_rate=64_000)
    media = open_live(UnseekableReader(file), content_type="audio/mpeg")
    assert media.facts.probe_name == "flv"
    media.close()


def all_packets(packets: OpusPackets, titles: StreamTitles) -> tuple[list[SourcePacket], list[TitleChange]]:
    """The packets, of which each goes on where the one before it ends, and the titles."""
    heard: list[SourcePacket] = []
    changes: list[TitleChange] = []
    while part := packets.take(1):
        heard += part
        changes += titles.take_changes()
    assert all(before.audible_to == packet.audible_from for before, packet in pairwise(heard))
    return heard, changes


@pytest.mark.parametrize("make", [live_mp3, adts, opus, vorbis])
def test_a_stream_that_is_taken_up_in_the_middle_goes_on(make: Callable[[Signal], bytes]) -> None:
    """The bytes before stop anywhere, and those after begin as a server begins for a new listener."""
    first, second = make(tone(440, 3.0, 48_000 if make in (opus, vorbis) else 44_100)), make(tone(880, 3.0, 48_000))
    file = first[: len(first) * 2 // 3 + 7] + second
    _, pcm = title_changes(open_live(UnseekableReader(file)), StreamTitles())
    samples = samples_of(pcm)
    assert len(samples) / SAMPLE_RATE_HZ > 4.0
    assert loudest_hz(samples[-48_000:-9600]) > 700
    packets = open_live(UnseekableReader(file)).take_opus_packets()
    assert (packets is not None) is (make is opus)
    if packets is not None:
        heard, _ = all_packets(packets, StreamTitles())
        assert heard[-1].audible_to > 4 * SAMPLE_RATE_HZ


def test_packets_of_a_chained_opus_stream_have_their_places_and_titles_and_none_waits_for_the_next_page() -> None:
    titles = StreamTitles()
    sounds = tone(440, 2.0), tone(880, 2.0)
    parts = [opus(sound, tags={"title": title}) for sound, title in zip(sounds, ("One", "Two"), strict=True)]
    reader = UnseekableReader(b"".join(parts), 400)
    media = open_live(reader, titles)
    assert media.facts.has_packets
    packets = media.take_opus_packets()
    assert packets is not None
    at = 10 * SAMPLE_RATE_HZ
    packets.begin_at(at)
    (first,) = packets.take(1)
    assert reader.tell() < len(parts[0]), "a page has a second of sound"
    heard, changes = all_packets(packets, titles)
    assert (first.audible_from, heard[-1].audible_to) == (at, at + 4 * SAMPLE_RATE_HZ)
    assert first.audible_to == heard[0].audible_from
    assert changes[-1] == TitleChange(2 * SAMPLE_RATE_HZ, "Two")

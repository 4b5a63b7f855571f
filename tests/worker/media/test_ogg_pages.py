"""Ogg files whose pages are read without libav: it must make no difference which of the two reads."""

import os
import re
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.audio_files import music, opus
from tests.support.media_files import open_bytes
from tests.support.strange.files import strange_file
from tonearm.core.failure import PlayError
from tonearm.core.file_formats import OGG_CHECKSUM_AT, ogg_checksum
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.worker.media.media import Media, open_media
from tonearm.worker.media.opus_packets import OpusPackets, SourcePacket
from tonearm.worker.reading.reader import DescriptorReader


def song() -> bytes:
    return opus(music(6.0) * 0.8, bit_rate=96_000, options={"page_duration": "300000"})


def other() -> bytes:
    return opus(music(3.0, seed=2) * 0.8, bit_rate=96_000)


class FileOnDisk:
    """An open file whose packets are read as a decoder process reads them. `by_libav` counts those that libav read."""

    def __init__(self, tmp_path: Path, file: bytes) -> None:
        path = tmp_path / "song.ogg"
        path.write_bytes(file)
        self._reader = DescriptorReader(os.open(path, os.O_RDONLY), len(file), nullcontext)
        self.media = open_media(self._reader, name="song", content_type=None, size_bytes=len(file))
        packets = self.media.take_opus_packets()
        assert packets is not None
        self.packets = packets
        self.by_libav = 0
        decoder = self.media._opened.decoder
        next_packet = decoder.next_packet

        def counted() -> object:
            self.by_libav += 1
            return next_packet()

        decoder.next_packet = counted  # type: ignore[method-assign, assignment]

    def close(self) -> None:
        self.media.close()
        self._reader.close()


def rest_of(packets: OpusPackets) -> list[SourcePacket]:
    found: list[SourcePacket] = []
    try:
        while part := packets.take(48_000):
            found += part
    except PlayError:
        pass  # a damaged file
    return found


def by_libav(file: bytes, sample: int | None = None) -> list[SourcePacket]:
    media = open_bytes(file)
    packets = media.take_opus_packets()
    assert packets is not None
    found = [] if sample is None else media.seek_packets(sample)
    found += rest_of(packets)
    media.close()
    return found


def by_pages(tmp_path: Path, file: bytes, sample: int | None = None) -> tuple[list[SourcePacket], int]:
    on_disk = FileOnDisk(tmp_path, file)
    found = [] if sample is None else on_disk.media.seek_packets(sample)
    found += rest_of(on_disk.packets)
    on_disk.close()
    return found, on_disk.by_libav


def pages_of(file: bytes) -> list[bytes]:
    starts = [found.start() for found in re.finditer(rb"OggS\0", file)]
    return [file[start:end] for start, end in zip(starts, [*starts[1:], len(file)], strict=True)]


def page(flags: int, granule: int, serial: int, sequence: int, lacing: bytes, body: bytes) -> bytes:
    head = struct.pack("<4sBBqIIIB", b"OggS", 0, flags, granule, serial, sequence, 0, len(lacing)) + lacing
    whole = head + body
    return whole[:OGG_CHECKSUM_AT] + ogg_checksum(whole) + whole[OGG_CHECKSUM_AT + 4 :]


def paged_anew(file: bytes, segments_a_page: int) -> bytes:
    """The same packets on pages of so many segments, wherever in a packet a page ends then."""
    packets = [packet.data for packet in by_libav(file)]
    head = pages_of(file)[:2]
    serial = struct.unpack_from("<I", head[0], 14)[0]
    segments: list[tuple[bytes, bool]] = []  # and whether a packet ends with it
    for packet in packets:
        cuts = [packet[at : at + 255] for at in range(0, len(packet) + 1, 255)]
        segments += [(cut, number == len(cuts) - 1) for number, cut in enumerate(cuts)]
    made, granule, ended = head, 0, True
    for at in range(0, len(segments), segments_a_page):
        part = segments[at : at + segments_a_page]
        granule += FRAME_SAMPLES * sum(ends for _, ends in part)
        is_last = at + segments_a_page >= len(segments)
        flags = (0 if ended else 1) | (4 if is_last else 0)
        lacing = bytes(len(segment) for segment, _ in part)
        body = b"".join(segment for segment, _ in part)
        says = granule if any(ends for _, ends in part) else -1
        made.append(page(flags, says, serial, 2 + at // segments_a_page, lacing, body))
        ended = part[-1][1]
    return b"".join(made)


def test_a_file_is_read_as_by_libav(tmp_path: Path) -> None:
    for file in (song(), other(), opus(music(3.0, channels=1)), opus(music(0.5)), opus(music(4.0001))):
        assert by_pages(tmp_path, file)[0] == by_libav(file)


@pytest.mark.parametrize(
    ("seconds", "silent_s", "most"), [(24.0, 4.0, 0.7), (60.0, 0.0, 0.25)], ids=["silence", "long"]
)
def test_libav_is_needed_at_both_ends_and_in_silence_only(
    tmp_path: Path, seconds: float, silent_s: float, most: float
) -> None:
    sound = music(seconds) * 0.8
    sound[: int(48_000 * silent_s)] = 0
    file = opus(sound)
    found, count = by_pages(tmp_path, file)
    assert found == by_libav(file)
    assert count < len(found) * most, "so many are the last ten seconds, and the silence"


@pytest.mark.parametrize("segments_a_page", [3, 7, 40, 255])
def test_packets_that_go_on_on_the_next_page(tmp_path: Path, segments_a_page: int) -> None:
    file = paged_anew(opus(music(6.0) * 0.8, bit_rate=200_000), segments_a_page)
    wanted = by_libav(file)
    found, _ = by_pages(tmp_path, file)
    assert found == wanted


@pytest.mark.parametrize("sample", [0, 960, 100_000, 200_001, 287_000, 10_000_000])
def test_after_a_seek_it_goes_on_as_by_libav(tmp_path: Path, sample: int) -> None:
    assert by_pages(tmp_path, song(), sample)[0] == by_libav(song(), sample)


def test_seeks_to_and_fro(tmp_path: Path) -> None:
    on_disk = FileOnDisk(tmp_path, song())
    media = open_bytes(song())
    packets = media.take_opus_packets()
    assert packets is not None
    for sample in (150_000, 20_000, 280_000, 0, 250_000):
        found = on_disk.media.seek_packets(sample) + on_disk.packets.take(24_000)
        wanted = media.seek_packets(sample) + packets.take(24_000)
        count = min(len(found), len(wanted))
        assert count > 8
        assert found[:count] == wanted[:count], "of which more may come, by whole pages"
    on_disk.close()
    media.close()


def heard(packets: Sequence[SourcePacket]) -> set[bytes]:
    return {packet.data for packet in packets}


def damaged_files() -> Iterator[tuple[str, bytes]]:
    pages = pages_of(song())
    yield "a page is missing", b"".join([*pages[:8], *pages[9:]])
    yield "a page comes twice", b"".join([*pages[:8], *pages[7:]])
    yield "a chain", song() + other()
    yield "the end is missing", song()[: len(song()) * 2 // 3]
    yield "junk between pages", b"".join([*pages[:8], b"junk" * 100, *pages[8:]])
    broken = bytearray(pages[8])
    broken[27] ^= 0x55
    yield "a wrong size", b"".join([*pages[:8], bytes(broken), *pages[9:]])
    flipped = bytearray(pages[8])
    flipped[-20] ^= 0x55
    yield "a wrong bit", b"".join([*pages[:8], bytes(flipped), *pages[9:]])
    stranger = page(0, 48_000, 4711, 0, b"\x04", b"what")
    yield "a page of another stream", b"".join([*pages[:8], stranger, *pages[8:]])
    empty = page(0, 0, struct.unpack_from("<I", pages[0], 14)[0], 8, b"", b"")
    yield "an empty page", b"".join([*pages[:8], empty, *pages[8:]])


def test_what_is_not_ordinary_is_left_to_libav(tmp_path: Path) -> None:
    whole = heard(by_libav(song()))
    for what, file in damaged_files():
        wanted, (found, _) = by_libav(file), by_pages(tmp_path, file)
        assert [packet.audible_to for packet in found[:-1]] == [packet.audible_from for packet in found[1:]], what
        if what in ("a chain", "the end is missing", "a wrong bit"):
            assert found == wanted, what
        else:  # libav's own positions behind a hole are not those that it counts while it reads on
            assert abs(len(found) - len(wanted)) <= 60, what
            assert heard(found) <= heard(wanted) | whole, what


@settings(max_examples=30)
@given(place=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255), cut=st.integers(0, 3000))
def test_a_damaged_file_ends(tmp_path_factory: pytest.TempPathFactory, place: float, value: int, cut: int) -> None:
    file = song()
    # Behind the first page with sound: if a packet of that is damaged, the source may be one that is decoded.
    start = sum(map(len, pages_of(file)[:3]))
    at = start + int(place * (len(file) - start))
    damaged = file[:at] + bytes((value,)) + file[at + 1 + cut :]
    found, _ = by_pages(tmp_path_factory.mktemp("song"), damaged)
    assert [packet.audible_to for packet in found[:-1]] == [packet.audible_from for packet in found[1:]]
    assert len(found) >= 200


def test_reading_ends_with_the_source(tmp_path: Path) -> None:
    on_disk = FileOnDisk(tmp_path, song())
    on_disk.packets.take(96_000)
    on_disk._reader.drop()
    with pytest.raises(PlayError):
        deque(iter(lambda: on_disk.packets.take(48_000), []))
    on_disk.close()


def test_other_media_stay_as_they_are(tmp_path: Path) -> None:
    file = opus(music(2.0), container="webm")
    on_disk = FileOnDisk(tmp_path, file)
    assert isinstance(on_disk.media, Media)
    assert rest_of(on_disk.packets) == by_libav(file)
    on_disk.close()


def test_what_is_read_by_pages_and_by_libav_leaves_no_gap(tmp_path: Path) -> None:
    """Pages that come twice, packets that go on on the next page: libav, who goes on there, takes the beginning of a
    packet for one that is not to be heard, and the rest of it must not be lost."""
    packets, _ = by_pages(tmp_path, strange_file(56_765_453).data)
    places = [(packet.audible_from, packet.audible_to) for packet in packets]
    assert all(before[1] == after[0] for before, after in pairwise(places)), places

"""Ogg Opus with packets that are too long and with holes in time: no packet is passed on that a decoder refuses, and
what is read has no gap."""

from functools import cache
from pathlib import Path

import pytest

from tests.support.audio_files import music, opus
from tests.support.decoder_driver import DecoderDriver, running_decoder
from tests.support.packet_source import packets_in
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, MOST_OPUS_PACKET_BYTES, PCM, Output
from tonearm.decoder.messages import MarkKind, Plan, SeekSource
from tonearm.server.stream_bodies import OggOpusStream
from tonearm.worker.media.opus_decoding import PacketDecoding
from tonearm.worker.media.opus_packets import SourcePacket
from tonearm.worker.sources.packet_store import PacketStore

HOLE_FRAMES = 100
PACKETS_A_PAGE = 10


@cache
def song() -> list[bytes]:
    """Its packets."""
    return packets_in(opus(music(4.0)))


def ogg(packets: list[bytes], hole_at: int | None = None) -> bytes:
    """An Ogg file. Where it has a hole, the granules go on 2 s later."""
    stream = OggOpusStream(7, 312)
    pages = [stream.head("test")]
    for first in range(0, len(packets), PACKETS_A_PAGE):
        if first == hole_at:
            stream._granule += HOLE_FRAMES * FRAME_SAMPLES
        pages.append(stream.page(packets[first : first + PACKETS_A_PAGE]))
    return b"".join((*pages, stream.end()))


@pytest.mark.parametrize("length", [MOST_OPUS_PACKET_BYTES + 1, 70_000])
def test_a_packet_that_is_too_long_is_not_passed_on(length: int) -> None:
    packets = list(song())
    packets[60] = packets[60][:1] + bytes(length - 1)
    outputs = frozenset({PCM, Output("opus", passes_through=True)})
    with running_decoder() as driver:
        driver.begin()
        driver.open_bytes(ogg(packets))
        heard = list(driver.listen(outputs=outputs))
        passed = [packet for audio in heard for _, of_output in audio.packets for packet in of_output]
        assert heard[-1].marks[-1].kind is MarkKind.END
        assert sum(audio.frames for audio in heard) >= len(packets) - 3
        assert max(map(len, passed)) <= MOST_OPUS_PACKET_BYTES
        assert len(set(passed) & set(song())) > len(song()) // 2  # what is whole goes as it is


def test_many_packets_of_which_nothing_is_heard_leave_no_gap() -> None:
    """As where the end of a part is cut off by more than its last packet, and another part follows."""
    store = PacketStore(0, PacketDecoding(channels=2))
    heard = 12  # frames
    for first, packets in ((0, song()[:heard]), (heard, song()[heard : 2 * heard])):
        start, end = first * FRAME_SAMPLES, (first + heard) * FRAME_SAMPLES
        store.append_packets(
            [
                SourcePacket(at, FRAME_SAMPLES, at, at + FRAME_SAMPLES, packet)
                for at, packet in zip(range(start, end, FRAME_SAMPLES), packets, strict=True)
            ]
        )
        store.append_packets([SourcePacket(end, FRAME_SAMPLES, end, end, packet) for packet in song()[:40]])
    assert len(store.read(0, store.end)) == 2 * heard * FRAME_BYTES
    assert len(store.read(FRAME_SAMPLES, store.end - FRAME_SAMPLES)) == (2 * heard - 1) * FRAME_BYTES


@pytest.mark.parametrize("form", [PCM, Output("opus", passes_through=True)])
def test_a_file_on_disk_is_played_and_sought_across_a_hole(tmp_path: Path, form: Output) -> None:
    whole, hole = song() * 3, 300
    path = tmp_path / "holed.opus"
    path.write_bytes(ogg(whole, hole))
    with running_decoder() as driver:
        driver.open_session()
        driver.open_file(path)
        driver.plan()
        begun = frames_to_the_end(driver, form, source=1, epoch=2)
        assert begun == pytest.approx(len(whole), abs=2)
        for source, into in enumerate((hole + 50, 20, hole + 1, hole + 99, hole + 130), 2):
            driver.send(SeekSource(1, source - 1, source, into * FRAME_SAMPLES))
            driver.send(Plan(1, source + 1, source, begun, source, source, None, Filters()))
            left = len(whole) - min(into, max(hole, into - HOLE_FRAMES))
            frames = frames_to_the_end(driver, form, source, source + 1, begun)
            assert frames == pytest.approx(left, abs=2)
            begun += frames


def frames_to_the_end(driver: DecoderDriver, form: Output, source: int, epoch: int, first_frame: int = 0) -> int:
    """How many frames a source has from this frame on, in one run."""
    heard = list(driver.listen(1, epoch, first_frame, outputs=frozenset({form})))
    marks = [(mark.kind, mark.source) for audio in heard for mark in audio.marks]
    assert marks[-1] == (MarkKind.END, source)
    return sum(audio.frames for audio in heard)

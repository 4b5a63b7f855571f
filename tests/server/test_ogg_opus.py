"""Ogg pages as other programs read them, and streams of them as they come from payloads and titles."""

import io
import struct

import av
import numpy as np
import pytest

from tonearm.core.frame import FRAME_SAMPLES, SILENT_PACKET
from tonearm.core.track_info import MAX_TITLE_CHARACTERS
from tonearm.server.stream_bodies import OggBody, OggOpusStream

PACKET = b"\xfc\xff\xfe"


def read_back(data: bytes) -> tuple[list[bytes], dict[str, str], float]:
    """The packets, the tags and the length in seconds as libavformat reads them."""
    with av.open(io.BytesIO(data), "r", format="ogg") as container:
        stream = container.streams.audio[0]
        packets = [bytes(packet) for packet in container.demux(stream) if packet.size]
        return (
            packets,
            {name.lower(): value for name, value in stream.metadata.items()},
            (container.duration or 0) / 1_000_000,
        )


def test_packets_and_tags_come_back() -> None:
    stream = OggOpusStream(7, 312)
    packets = [PACKET, bytes([0xFC]) + bytes(254), bytes([0xFC]) + bytes(255), bytes([0xFC]) + bytes(1000)]
    data = stream.head("tonearm", [("TITLE", "Grüße"), ("ARTIST", "a=b")])
    data += stream.page(packets[:2]) + stream.page(packets[2:]) + stream.page([PACKET] * 46) + stream.end()
    read, tags, length_s = read_back(data)
    assert read[:4] == packets
    assert (tags["title"], tags["artist"]) == ("Grüße", "a=b")
    assert length_s == pytest.approx(1.0, abs=0.01)


def test_every_page_has_its_number_its_place_and_a_right_checksum() -> None:
    stream, random = OggOpusStream(99, 0), np.random.default_rng(5)
    for number, length in enumerate((1, 254, 255, 256, 3000)):
        page = stream.page([random.bytes(length)])
        magic, version, _, granule, serial, sequence, checksum, segments = struct.unpack_from("<4sBBqIIIB", page)
        assert (magic, version, serial, sequence, segments) == (b"OggS", 0, 99, number, length // 255 + 1)
        assert granule == (number + 1) * FRAME_SAMPLES
        assert checksum == plain_checksum(page[:22] + bytes(4) + page[26:])


def plain_checksum(page: bytes) -> int:
    """RFC 3533 by the letter, a bit at a time."""
    register = 0
    for byte in page:
        register ^= byte << 24
        for _ in range(8):
            register = (register << 1 ^ (0x04C11DB7 if register & 0x80000000 else 0)) & 0xFFFFFFFF
    return register


def test_packets_that_do_not_fit_on_a_page_go_over_several() -> None:
    random = np.random.default_rng(6)
    # A page has room for 255 segments of 255 bytes, and a packet ends with one that is shorter.
    lengths = (100, 255 * 254, 255 * 255 - 1, 255 * 255, 255 * 200, 255 * 200, 150_000, 3)
    packets = [b"\xfc" + random.bytes(length - 1) for length in lengths]
    stream = OggOpusStream(1, 312)
    data = stream.head("tonearm") + stream.page(packets[:4]) + stream.page(packets[4:7]) + stream.page(packets[7:])
    read, _, _ = read_back(data + stream.end())
    assert read == packets


def test_an_ogg_stream_goes_on_with_titles_and_packets_of_any_length() -> None:
    long = "x" * 100_000
    titles = [("", "first"), (long, long), ("", "last")]
    body = OggBody(lambda: titles[0], is_chained=True, packets_a_page=1)
    data = body.head
    for packet in (SILENT_PACKET, b"\xfc" + bytes(70_000), SILENT_PACKET):
        data += body.add(packet)
        titles.pop(0)
        titles.append(("", "last"))
    assert data.count(b"OpusHead") == 3
    assert data.count(b"x") < 3 * MAX_TITLE_CHARACTERS
    assert read_back(data)[0] == [SILENT_PACKET, b"\xfc" + bytes(70_000), SILENT_PACKET]

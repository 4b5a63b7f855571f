import pytest
from bench.frame_stream import MESSAGE_BYTES, FrameStream, PacketStream

FRAME = b"\x82\x7e\x0f\x00" + bytes(range(256)) * 15
PING = b"\x89\x03abc"
CLOSE = b"\x88\x02\x03\xe8"
PONG = b"\x8a\x00"
TEXT = b"\x81\x02hi"
LONG_TEXT = b"\x81\x7e\x01\x00" + b"x" * 256
LONGER_BINARY = b"\x82\x7f" + (70_000).to_bytes(8, "big") + bytes(70_000)


def test_a_frame_is_as_long_as_the_node_makes_it() -> None:
    assert len(FRAME) == MESSAGE_BYTES


@pytest.mark.parametrize("piece_bytes", [1, 3, 5, 1000, MESSAGE_BYTES, MESSAGE_BYTES + 1, 1 << 20])
def test_everything_is_counted_however_it_is_cut(piece_bytes: int) -> None:
    data = FRAME + PING + FRAME * 2 + TEXT + PONG + FRAME + LONG_TEXT + LONGER_BINARY + FRAME + PING + CLOSE
    stream = FrameStream()
    frames = sum(stream.feed(data[at : at + piece_bytes]) for at in range(0, len(data), piece_bytes))
    assert frames == 5
    assert stream.pings == [b"abc", b"abc"]
    assert stream.strays == 3
    assert stream.is_closed


def test_a_frame_counts_when_its_last_byte_comes() -> None:
    stream = FrameStream()
    assert stream.feed(FRAME[:-1]) == 0
    assert stream.feed(FRAME[-1:] + FRAME[:2]) == 1
    assert stream.feed(FRAME[2:] + FRAME) == 2
    assert not stream.strays


def test_another_payload_of_a_frames_length_is_no_frame() -> None:
    stream = FrameStream()
    assert stream.feed(PING + bytes([0x81]) + FRAME[1 : MESSAGE_BYTES - len(PING)]) == 0
    assert stream.feed(FRAME[MESSAGE_BYTES - len(PING) :] + FRAME) == 1
    assert stream.strays == 1


SHORT_PACKET = b"\x82\x03\xfc\xff\xfe"
PACKET = b"\x82\x7e\x01\x40" + bytes(320)
TOO_LONG = b"\x82\x7e\x04\xfd" + bytes(1277)


@pytest.mark.parametrize("piece_bytes", [1, 3, 5, 100, len(PACKET), 1 << 20])
def test_packets_are_counted_however_they_are_cut(piece_bytes: int) -> None:
    data = PACKET + PING + SHORT_PACKET + PACKET * 2 + TEXT + PONG + TOO_LONG + PACKET + FRAME + PING + CLOSE
    stream = PacketStream()
    packets = sum(stream.feed(data[at : at + piece_bytes]) for at in range(0, len(data), piece_bytes))
    assert packets == 5
    assert stream.pings == [b"abc", b"abc"]
    assert stream.strays == 3
    assert stream.is_closed

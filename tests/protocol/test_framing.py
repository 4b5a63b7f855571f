"""Bytes on the wire, as RFC 6455 and RFC 9112 have them and as the interface describes the header."""

import struct

from tonearm.core.frame import FRAME_BYTES
from tonearm.protocol.framing import FrameFlag, Framing, Stamp, as_message, packets_as_messages, pcm_as_messages

SMALL = b"\xfc\xff\xfe"


def test_a_message_says_how_long_it_is() -> None:
    for size, head in ((1, b"\x82\x01"), (125, b"\x82\x7d"), (126, b"\x82\x7e\x00\x7e"), (3840, b"\x82\x7e\x0f\x00")):
        assert Framing.WEBSOCKET.of(as_message(bytes(size)), Stamp(1, 0)) == head + bytes(size)


def test_the_header_has_sixteen_bytes_in_network_order() -> None:
    for payload in (SMALL, bytes(109), bytes(110), bytes(3840)):
        flags = FrameFlag.TRACK_STARTS | FrameFlag.DISCONTINUITY
        message = Framing.WEBSOCKET_WITH_HEADER.of(as_message(payload), Stamp(70_000, 5_000_000_000, flags))
        assert message.endswith(payload)
        header = message[: len(message) - len(payload)][-16:]
        assert struct.unpack(">BBHIQ", header) == (1, 3, len(payload), 70_000, 5_000_000_000)


def test_a_message_can_be_told_that_frames_before_it_are_missing() -> None:
    for payload in (SMALL, bytes(3840)):
        stamp = Stamp(5, 100_000, FrameFlag.TRACK_STARTS)
        framing = Framing.WEBSOCKET_WITH_HEADER
        assert framing.after_loss is not None
        message = framing.after_loss(framing.of(as_message(payload), stamp))
        assert message == framing.of(as_message(payload), stamp._replace(flags=3))


def test_a_chunk_has_its_size_in_hexadecimal() -> None:
    assert Framing.CHUNKED.of(as_message(SMALL * 10), Stamp(1, 0)) == b"1E\r\n" + SMALL * 10 + b"\r\n"
    assert Framing.RAW.of(as_message(SMALL), Stamp(1, 0)) == SMALL


def test_frames_that_arrive_together_become_a_message_each() -> None:
    frames = [bytes((number,)) * FRAME_BYTES for number in range(3)]
    assert pcm_as_messages(memoryview(b"".join(frames))) == [as_message(frame) for frame in frames]
    packets = [bytes(size) for size in (0, 3, 125, 126, 1276)]
    assert packets_as_messages(packets) == [as_message(packet) for packet in packets]

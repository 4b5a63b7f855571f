"""Packets of RTP: what their headers say, and that no nonce is used twice."""

import os
from itertools import pairwise

import pytest

from tests.support.voice_media import Heard, opened
from tonearm.core.voice_gateway import MODES
from tonearm.voice.process.rtp import RtpStream

KEY = bytes(range(32))
SSRC = 0xFFFFFFFF


def heard(stream: RtpStream, mode: str, payload: bytes = b"\xfc opus") -> Heard:
    packet = stream.packet(payload)
    assert packet is not None
    return opened(mode, KEY, packet)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [0, 1, 3, 1275])
def test_what_goes_in_comes_out(mode: str, size: int) -> None:
    payload = os.urandom(size)
    packet = heard(RtpStream(mode, KEY, SSRC, 0.0), mode, payload)
    assert (packet.payload, packet.ssrc, packet.counter) == (payload, SSRC, 0)


def test_the_stamp_goes_on_as_time_goes() -> None:
    stream = RtpStream(MODES[0], KEY, SSRC, 100.0)
    stream.begin_run(100.0)
    packets = [heard(stream, MODES[0]), heard(stream, MODES[0])]
    stream.begin_run(103.0)  # after a pause
    packets.append(heard(stream, MODES[0]))
    stream.skip(4)
    packets.append(heard(stream, MODES[0]))
    stream.begin_run(103.0)  # the clock is behind what was sent already
    packets.append(heard(stream, MODES[0]))
    first = packets[0].timestamp
    frames = [((packet.timestamp - first) & 0xFFFFFFFF) / 960 for packet in packets]
    assert frames == [0, 1, 150, 155, 156]
    assert all((after.sequence - before.sequence) & 0xFFFF == 1 for before, after in pairwise(packets))


@pytest.mark.parametrize(
    ("mode", "key"), [("xsalsa20_poly1305", KEY), ("", KEY), (MODES[0], b""), (MODES[1], b"short")]
)
def test_other_modes_and_keys_are_refused(mode: str, key: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        RtpStream(mode, key, SSRC, 0.0)

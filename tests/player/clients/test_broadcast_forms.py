"""Listeners that want other forms than PCM, headers, a burst, or little latency."""

from typing import Any

import pytest

from tests.support.sinks import MemoryListener
from tonearm.core.frame import FRAME_BYTES, PCM, SILENT_PACKET, Output, Payloads, mp3_output
from tonearm.decoder.session.frame_buffer import FrameBuffer
from tonearm.player.clients.broadcast import Broadcast, silent_mp3_frame
from tonearm.protocol.framing import HEADER, HEADER_BYTES, FrameFlag, Framing, Stamp, as_message, payload_of

OPUS = Output("opus")
SMALL = Output("opus", 32_000)
MP3 = mp3_output(128_000)


class Player:
    """Sends numbered frames to a broadcast."""

    def __init__(self) -> None:
        self.number = 0
        self._buffer = FrameBuffer()
        self.broadcast = Broadcast("p", self._buffer, lambda *_: False)

    def attached(self, *args: Any, **more: Any) -> MemoryListener:
        """Another listener, which is such a one."""
        listener = MemoryListener(*args, **more)
        self.broadcast.attach(listener)
        return listener

    def send(self, frames: int = 1, flags: int = 0) -> None:
        for _ in range(frames):
            self.number += 1
            self._buffer.skip(1)
            self.broadcast.send((PCM, OPUS, SMALL), payloads(self.number), self.number, flags)


def payloads(number: int) -> Payloads:
    pcm = bytes((number % 256,)) * FRAME_BYTES
    return as_message(pcm), as_message(packet(number)), as_message(packet(number, b"small"))


def packet(number: int, name: bytes = b"opus") -> bytes:
    return name + number.to_bytes(4, "big")


def headers(listener: MemoryListener) -> list[tuple[int, int, int]]:
    """Flags, number and position in ms of each message."""
    found = []
    for message in listener.messages:
        payload = payload_of(message)
        version, flags, size, number, position_us = HEADER.unpack(payload[:HEADER_BYTES])
        assert (version, size) == (1, len(payload) - HEADER_BYTES)
        found.append((flags, number, position_us // 1000))
    return found


@pytest.fixture
def player() -> Player:
    return Player()


def test_each_listener_gets_its_own_form(player: Player) -> None:
    listeners = {output: player.attached(output=output) for output in (PCM, OPUS, SMALL, MP3)}
    assert player.broadcast.outputs == frozenset(listeners)
    player.send()
    assert listeners[PCM].messages == [b"\1" * FRAME_BYTES]
    assert listeners[OPUS].messages == [packet(1)]
    assert listeners[SMALL].messages == [packet(1, b"small")]
    player.broadcast.send_mp3(MP3, 0, 3, [b"one", b"two"])
    assert listeners[MP3].messages == [], "only streams get MP3"
    player.broadcast.send((PCM,), as_message(bytes(FRAME_BYTES)), 2)  # it was not rendered in the other forms
    assert [len(listener) for listener in listeners.values()] == [2, 1, 1, 0]


def test_headers_number_the_frames_of_the_player(player: Player) -> None:
    early = player.attached(Framing.WEBSOCKET_WITH_HEADER)
    player.send(flags=FrameFlag.TRACK_STARTS)
    player.send(2)
    late = player.attached(Framing.WEBSOCKET_WITH_HEADER, output=OPUS)
    player.send(flags=FrameFlag.DISCONTINUITY)
    player.send()
    assert headers(early) == [(1, 1, 0), (0, 2, 20), (0, 3, 40), (2, 4, 60), (0, 5, 80)]
    assert headers(late) == [(4, 4, 60), (2, 4, 60), (0, 5, 80)]
    assert late.messages[0].endswith(SILENT_PACKET)


def test_what_is_sent_elsewhere_gets_each_payload_with_its_stamp_in_a_framing_of_its_own(player: Player) -> None:
    def made(payload: bytes, stamp: Stamp) -> bytes:
        return b"%d %d %d " % stamp + payload

    own = Framing(made, is_stamped=True, after_loss=lambda message: b"lost " + message)
    player.send()
    quick, slow = (player.attached(own, output=OPUS, wants_silence=True, takes=takes) for takes in (None, 0))
    player.send(1, FrameFlag.DISCONTINUITY)
    player.broadcast.send_silence(player.number + 1)
    player.send(60)
    slow.takes = None
    player.send()
    assert quick.messages[:4] == [
        made(SILENT_PACKET, Stamp(2, 20_000, FrameFlag.SILENCE)),
        made(packet(2), Stamp(2, 20_000, FrameFlag.DISCONTINUITY)),
        made(SILENT_PACKET, Stamp(3, 40_000, FrameFlag.SILENCE)),
        made(packet(3), Stamp(3, 40_000)),
    ]
    assert slow.messages[1].startswith(b"lost ")


@pytest.mark.parametrize(("max_latency_ms", "kept"), [(20, 1), (200, 10), (1000, 50), (4000, 200)])
def test_as_much_is_kept_for_a_listener_that_stands_still_as_it_asks_for(
    player: Player, max_latency_ms: int, kept: int
) -> None:
    """Whoever lost frames sees it in the next header."""
    still = player.attached(Framing.WEBSOCKET_WITH_HEADER, takes=0, max_latency_ms=max_latency_ms)
    player.send(301)
    still.takes = None
    player.send(1)
    kept_headers = [(2 * (n == 302 - kept), n, 20 * n - 20) for n in range(302 - kept, 303)]
    assert headers(still) == [(0, 1, 0), *kept_headers]
    assert player.broadcast.frames_lost == 301 - 1 - kept


def test_a_stream_begins_with_what_was_sent_before(player: Player) -> None:
    first = player.attached(output=OPUS, wants_silence=True, burst_ms=200)
    assert first.messages == [SILENT_PACKET] * 10, "nothing was sent before"
    player.send(4)
    second = player.attached(output=OPUS, wants_silence=True, burst_ms=200)
    assert second.messages == [SILENT_PACKET] * 6 + [packet(number) for number in range(1, 5)]
    player.send(20)
    third = player.attached(output=OPUS, wants_silence=True, burst_ms=100)
    assert third.messages == [SILENT_PACKET] + [packet(number) for number in range(20, 25)], "primed, then the last"
    player.broadcast.send_silence()
    assert third.messages[-1] == first.messages[-1] == SILENT_PACKET


def test_mp3_silence_keeps_the_time_and_waits_for_what_is_being_encoded(player: Player) -> None:
    """And takes the place of what was lost with its process."""
    player.send(100)
    stream = player.attached(output=MP3, wants_silence=True)
    for _ in range(5):
        player.broadcast.send_silence(is_mp3_awaited=True)
    assert stream.messages == []
    encoded, after = [b"%d" % number for number in range(8)], [b"after"] * 5
    player.broadcast.send_mp3(MP3, 100, 110, encoded)
    for _ in range(60):
        player.broadcast.send_silence()
    passed_ms = (5 + 10 + 60) * 20
    assert passed_ms - 72 < len(stream.messages) * 24 <= passed_ms, "less what an encoder keeps to itself"
    player.send(40)
    player.broadcast.send_mp3(MP3, 134, 140, after)
    passed_ms += 24 * 20 + 5 * 24
    assert passed_ms - 72 < len(stream.messages) * 24 <= passed_ms
    silence = [silent_mp3_frame(128_000)] * (len(stream.messages) - 8 - 5)
    assert stream.messages == encoded + silence + after


def test_the_last_stream_of_a_form_is_closed_and_ends_nothing_else(player: Player) -> None:
    """It takes nothing for so long that it is closed, then cut, while a frame is sent to it."""
    slow = player.attached(output=MP3, wants_silence=True, takes=0)
    for first in range(0, 20 * 50, 3):
        player.broadcast.send_mp3(MP3, first, first + 3, [b"one", b"two"])
    assert [code for code, _ in slow.closed] == [1013]
    assert slow.aborted == 1
    player.send(2)


def test_listeners_count_when_they_have_stayed(player: Player) -> None:
    sink = MemoryListener(output=OPUS)
    player.broadcast.attach(sink, is_counted=False)
    player.broadcast.attach(MemoryListener())
    assert player.broadcast.counted_by_format() == {"pcm": 1}
    assert player.broadcast.count(sink)
    assert not player.broadcast.count(sink)
    leave = player.broadcast.attach(MemoryListener(), is_voice=True)
    assert player.broadcast.counted_by_format() == {"pcm": 1, "opus": 1, "voice": 1}
    leave()
    assert player.broadcast.counted_by_format() == {"pcm": 1, "opus": 1}

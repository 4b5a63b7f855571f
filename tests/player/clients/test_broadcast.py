"""A player's listeners: the same bytes for all, and nobody pays for another one's slowness."""

import logging
from collections.abc import Sequence

import pytest

from tests.support.sinks import MemoryListener, break_off
from tonearm.core.errors import LimitReached
from tonearm.core.frame import FRAME_BYTES, MOST_ENCODERS, PCM, SILENT_FRAME, Output, mp3_output
from tonearm.decoder.session.frame_buffer import FrameBuffer
from tonearm.player.clients.broadcast import CLOSE_AFTER_FRAMES, CUT_AFTER_FRAMES, Broadcast
from tonearm.protocol.framing import Framing, Stamp, as_message

SECOND = 50
RING_FRAMES = SECOND  # kept for a listener that asks for nothing else


def frame(number: int) -> bytes:
    return number.to_bytes(4, "little") * (FRAME_BYTES // 4)


FRAMINGS = (Framing.WEBSOCKET, Framing.WEBSOCKET_WITH_HEADER, Framing.CHUNKED, Framing.RAW)


def message(number: int, framing: Framing = Framing.WEBSOCKET) -> bytes:
    return framing.of(as_message(frame(number)), Stamp(1, 0))


@pytest.fixture
def broadcast() -> Broadcast:
    return Broadcast("p", FrameBuffer(), lambda *_: False)


def attached(broadcast: Broadcast, *listeners: MemoryListener) -> Sequence[MemoryListener]:
    for listener in listeners:
        broadcast.attach(listener)
    return listeners


def send(broadcast: Broadcast, first: int, end: int) -> None:
    for number in range(first, end):
        broadcast.send((PCM,), as_message(frame(number)))


def test_all_get_the_very_same_bytes_from_their_coming_to_their_going(broadcast: Broadcast) -> None:
    listeners = attached(broadcast, *(MemoryListener(framing) for framing in FRAMINGS for _ in range(3)))
    send(broadcast, 0, 3)
    assert len(broadcast) == 12
    for listener in listeners:
        assert listener.messages == [message(number, listener.framing) for number in range(3)]
    assert len({id(listener.messages[0]) for listener in listeners}) == 4  # made once for each kind
    late = MemoryListener()
    detach = broadcast.attach(late)
    send(broadcast, 3, 5)
    detach()
    detach()
    send(broadcast, 5, 6)
    assert late.messages == [frame(3), frame(4)]
    assert len(broadcast) == 12


def test_a_listener_that_takes_nothing_for_a_while_loses_its_oldest_frames(broadcast: Broadcast) -> None:
    slow, quick = attached(broadcast, MemoryListener(takes=0), MemoryListener())
    send(broadcast, 0, 1 + RING_FRAMES + 30)
    assert slow.messages == [frame(0)]
    assert broadcast.frames_lost == 30
    slow.takes = FRAME_BYTES // 2  # what was kept is written only as far as it goes out
    send(broadcast, 1 + RING_FRAMES + 30, 1 + RING_FRAMES + 32)
    assert slow.messages == [frame(0), frame(31), frame(32)]
    slow.takes = None  # it reads again
    send(broadcast, 1 + RING_FRAMES + 32, 100)
    assert slow.messages == [frame(0), *(frame(number) for number in range(31, 100))]
    assert quick.messages == [frame(number) for number in range(100)]


def test_a_listener_that_takes_nothing_for_ten_seconds_is_closed_and_cut_a_second_later(broadcast: Broadcast) -> None:
    dead, quick = attached(broadcast, MemoryListener(takes=0), MemoryListener())
    send(broadcast, 0, 1 + CLOSE_AFTER_FRAMES - 1)
    assert dead.closed == []
    send(broadcast, CLOSE_AFTER_FRAMES, CLOSE_AFTER_FRAMES + 2)
    assert [code for code, _ in dead.closed] == [1013]
    assert dead.aborted == 0
    send(broadcast, CLOSE_AFTER_FRAMES + 2, CLOSE_AFTER_FRAMES + 2 + CUT_AFTER_FRAMES)
    assert dead.aborted == 1
    assert [code for code, _ in dead.closed] == [1013]
    assert dead.messages == [frame(0)]
    send(broadcast, 10_000, 10_500)
    assert dead.aborted == 1
    assert len(quick) == CLOSE_AFTER_FRAMES + 2 + CUT_AFTER_FRAMES + 500
    assert len(broadcast) == 1


def test_a_trickle_keeps_a_listener(broadcast: Broadcast) -> None:
    """A line with room for a tenth of the sound never empties its buffer, yet takes something all the time; another
    one takes a little every nine seconds, or all of it."""
    trickling, little, much = attached(broadcast, *(MemoryListener(takes=takes) for takes in (FRAME_BYTES // 10, 0, 0)))
    for _ in range(4):
        send(broadcast, 0, 9 * SECOND)
        little.takes, much.takes = 100, None
        send(broadcast, 0, 1)
        little.takes = much.takes = 0
    assert trickling.closed == little.closed == much.closed == []
    assert len(trickling) > CLOSE_AFTER_FRAMES / 5


def test_silence_goes_only_to_listeners_that_want_it(broadcast: Broadcast) -> None:
    socket, stream = MemoryListener(Framing.WEBSOCKET), MemoryListener(Framing.CHUNKED, wants_silence=True)
    broadcast.attach(socket)
    assert not broadcast.wants_silence
    detach = broadcast.attach(stream)
    assert broadcast.wants_silence
    broadcast.send_silence()
    assert stream.messages == [b"F00\r\n" + SILENT_FRAME + b"\r\n"]
    assert socket.messages == []
    detach()
    assert not broadcast.wants_silence


@pytest.mark.parametrize(
    ("method", "then", "aborted"),
    [("write", 0, 1), ("pending_bytes", 0, 1), ("close", 0, 1), ("abort", CUT_AFTER_FRAMES, 0)],
)
def test_whatever_a_listener_raises_is_logged_once_and_the_others_hear_everything(
    broadcast: Broadcast, method: str, then: int, aborted: int, caplog: pytest.LogCaptureFixture
) -> None:
    broken = type("Broken", (MemoryListener,), {method: break_off})(takes=0)
    dead, _, quick = attached(broadcast, MemoryListener(takes=0), broken, MemoryListener())
    with caplog.at_level(logging.ERROR):
        send(broadcast, 0, CLOSE_AFTER_FRAMES + 2 + then)
    assert (len(caplog.records), broken.aborted) == (1, aborted)
    broadcast.close(1000, "deleted")
    send(broadcast, 0, 5)
    assert len(quick) == CLOSE_AFTER_FRAMES + 2 + then
    assert quick.closed == [(1000, "deleted")]
    assert [code for code, _ in dead.closed] == [1013], "it was closing already"
    broken = type("Broken", (MemoryListener,), {"write": break_off})(burst_ms=100)
    with pytest.raises(BrokenPipeError):
        broadcast.attach(broken)
    assert len(broadcast) == 0


@pytest.mark.parametrize("closes", [True, False])
def test_listeners_may_go_and_the_player_may_close_while_a_frame_is_sent(broadcast: Broadcast, closes: bool) -> None:
    first, second, third, dead = (MemoryListener(takes=takes) for takes in (None, None, None, 0))
    leave = [broadcast.attach(listener) for listener in (first, second, third, dead)]
    send(broadcast, 0, CLOSE_AFTER_FRAMES + CUT_AFTER_FRAMES)

    def end() -> None:
        if closes:
            broadcast.close(1000, "deleted")
        for detach in leave:
            detach()

    second.on_write = end
    send(broadcast, 0, 3)
    heard = CLOSE_AFTER_FRAMES + CUT_AFTER_FRAMES
    assert [len(listener) - heard for listener in (first, second, third)] == [1, 1, 0]
    assert [listener.closed for listener in (first, second, third)] == [[(1000, "deleted")] * closes] * 3
    assert (dead.aborted, len(broadcast)) == (0, 0)


def test_no_more_forms_can_be_asked_for_than_a_message_has_room_for(broadcast: Broadcast) -> None:
    opus = [Output("opus", bitrate_bps) for bitrate_bps in range(64_000, 64_000 + MOST_ENCODERS)]
    leave = [broadcast.attach(MemoryListener(output=output)) for output in opus]
    with pytest.raises(LimitReached, match="64000, 64001, 64002"):
        broadcast.attach(MemoryListener(output=Output("opus", 96_000)))
    assert len(broadcast) == MOST_ENCODERS
    for output in (opus[0], PCM, mp3_output(128_000)):  # others are no more of that
        broadcast.attach(MemoryListener(output=output))
    leave[1]()
    broadcast.attach(MemoryListener(output=Output("opus", 96_000)))
    assert len(broadcast.outputs) == MOST_ENCODERS + 2

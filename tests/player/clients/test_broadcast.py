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


def test_all_get_the_very_same_bytes(broadcast: Broadcast) -> None:
    listeners = attached(broadcast, *(MemoryListener(framing) for framing in FRAMINGS for _ in range(3)))
    send(broadcast, 0, 3)
    assert len(broadcast) == 12
    for listener in listeners:
        assert listener.messages == [message(number, listener.framing) for number in range(3)]
    assert len({id(listener.messages[0]) for listener in listeners}) == 4  # made once for each kind


def test_a_listener_hears_from_its_coming_to_its_going(broadcast: Broadcast) -> None:
    early, late = MemoryListener(), MemoryListener()
    detach_early = broadcast.attach(early)
    send(broadcast, 0, 2)
    detach_late = broadcast.attach(late)
    send(broadcast, 2, 4)
    detach_early()
    detach_early()
    send(broadcast, 4, 5)
    detach_late()
    send(broadcast, 5, 6)
    assert early.messages == [frame(0), frame(1), frame(2), frame(3)]
    assert late.messages == [frame(2), frame(3), frame(4)]
    assert len(broadcast) == 0


def test_a_listener_that_takes_nothing_for_a_while_loses_its_oldest_frames(broadcast: Broadcast) -> None:
    slow, quick = attached(broadcast, MemoryListener(takes=0), MemoryListener())
    send(broadcast, 0, 1 + RING_FRAMES + 30)
    assert slow.messages == [frame(0)]
    assert broadcast.frames_lost == 30
    slow.takes = None  # it reads again
    send(broadcast, 1 + RING_FRAMES + 30, 100)
    assert slow.messages == [frame(0), *(frame(number) for number in range(31, 100))]
    assert quick.messages == [frame(number) for number in range(100)]


def test_what_was_kept_is_written_only_as_far_as_it_goes_out(broadcast: Broadcast) -> None:
    (slow,) = attached(broadcast, MemoryListener(takes=0))
    send(broadcast, 0, 20)
    slow.takes = FRAME_BYTES // 2
    send(broadcast, 20, 22)
    assert len(slow) < 5
    assert slow.messages == [frame(number) for number in range(len(slow))]


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
    """A line with room for a tenth of the sound never empties its buffer, yet takes something all the time."""
    (trickling,) = attached(broadcast, MemoryListener(takes=FRAME_BYTES // 10))
    send(broadcast, 0, 3 * CLOSE_AFTER_FRAMES)
    assert trickling.closed == []
    assert len(trickling) > CLOSE_AFTER_FRAMES / 5
    assert len(trickling) + broadcast.frames_lost + RING_FRAMES == pytest.approx(3 * CLOSE_AFTER_FRAMES, abs=1)


def test_a_buffer_that_moves_once_in_nine_seconds_keeps_a_listener(broadcast: Broadcast) -> None:
    (slow,) = attached(broadcast, MemoryListener(takes=0))
    send(broadcast, 0, 1)
    for _ in range(5):
        send(broadcast, 0, 9 * SECOND)
        slow.takes = 100
        send(broadcast, 0, 1)
        slow.takes = 0
    assert slow.closed == []


def test_a_stall_after_a_long_life_is_counted_from_its_beginning(broadcast: Broadcast) -> None:
    (listener,) = attached(broadcast, MemoryListener(takes=0))
    for _ in range(3):
        send(broadcast, 0, 9 * SECOND)
        listener.takes = None
        send(broadcast, 0, 100)
        listener.takes = 0
    send(broadcast, 0, 9 * SECOND)
    assert listener.closed == []


def test_closing_leaves_a_listener_that_is_closing_already(broadcast: Broadcast) -> None:
    dead, quick = attached(broadcast, MemoryListener(takes=0), MemoryListener())
    send(broadcast, 0, CLOSE_AFTER_FRAMES + 2)
    broadcast.close(1000, "the player was deleted")
    assert [code for code, _ in dead.closed] == [1013]
    assert quick.closed == [(1000, "the player was deleted")]
    assert len(broadcast) == 0
    send(broadcast, 0, 5)
    assert len(quick) == CLOSE_AFTER_FRAMES + 2


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


def test_silence_counts_for_slowness_like_sound(broadcast: Broadcast) -> None:
    (dead,) = attached(broadcast, MemoryListener(Framing.CHUNKED, wants_silence=True, takes=0))
    for _ in range(CLOSE_AFTER_FRAMES + 2 + CUT_AFTER_FRAMES):
        broadcast.send_silence()
    assert [code for code, _ in dead.closed] == [1013]
    assert dead.aborted == 1


def test_listeners_may_go_while_a_frame_is_sent(broadcast: Broadcast) -> None:
    listeners = [MemoryListener() for _ in range(4)]
    detaches = [broadcast.attach(listener) for listener in listeners]

    def take_all_away() -> None:
        for detach in detaches:
            detach()

    listeners[1].on_write = take_all_away
    send(broadcast, 0, 2)
    assert [len(listener) for listener in listeners] == [1, 1, 0, 0]
    assert len(broadcast) == 0


def test_a_listener_that_is_about_to_be_cut_may_go_while_a_frame_is_sent(broadcast: Broadcast) -> None:
    quick, dead = MemoryListener(), MemoryListener(takes=0)
    broadcast.attach(quick)
    detach_dead = broadcast.attach(dead)
    send(broadcast, 0, CLOSE_AFTER_FRAMES + 1 + CUT_AFTER_FRAMES - 1)
    quick.on_write = detach_dead
    send(broadcast, 0, 3)
    assert dead.aborted == 0
    assert len(broadcast) == 1


def test_a_player_may_close_while_a_frame_is_sent(broadcast: Broadcast) -> None:
    listeners = attached(broadcast, *(MemoryListener() for _ in range(3)))
    listeners[0].on_write = lambda: broadcast.close(1000, "deleted")
    send(broadcast, 0, 2)
    assert [len(listener) for listener in listeners] == [1, 0, 0]
    assert all(listener.closed == [(1000, "deleted")] for listener in listeners)


def test_a_listener_that_raises_is_cut_and_logged_once(broadcast: Broadcast, caplog: pytest.LogCaptureFixture) -> None:
    listeners = attached(broadcast, *(MemoryListener() for _ in range(3)))
    listeners[1].on_write = break_off
    with caplog.at_level(logging.ERROR):
        send(broadcast, 0, 5)
    assert [len(listener) for listener in listeners] == [5, 1, 5]
    assert listeners[1].aborted == 1
    assert len(caplog.records) == 1
    assert len(broadcast) == 2


@pytest.mark.parametrize("method", ["pending_bytes", "close", "abort"])
def test_whatever_a_listener_raises_the_others_hear_everything(broadcast: Broadcast, method: str) -> None:
    broken, quick = type("Broken", (MemoryListener,), {method: break_off})(takes=0), MemoryListener()
    attached(broadcast, broken, quick)
    send(broadcast, 0, CLOSE_AFTER_FRAMES + 2 + CUT_AFTER_FRAMES)
    broadcast.close(1000, "deleted")
    assert len(quick) == CLOSE_AFTER_FRAMES + 2 + CUT_AFTER_FRAMES
    assert quick.closed == [(1000, "deleted")]


def test_a_listener_that_raises_at_its_burst_is_not_kept(broadcast: Broadcast) -> None:
    broken = MemoryListener(burst_ms=100)
    broken.on_write = break_off
    with pytest.raises(BrokenPipeError):
        broadcast.attach(broken)
    assert len(broadcast) == 0


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

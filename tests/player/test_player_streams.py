"""A player with streams, in time that is turned by hand: titles, sound that stays away, long pauses."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import pytest

from tests.support.player_bench import BEGIN, END, INTERRUPTED, PlayerBench, frame, playing
from tests.support.tracks import CONNECTION_LOST, make_track
from tonearm.core.crossfade import CrossfadeEdit
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.core.overlays import OverlaySettings
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback_requests import Requests
from tonearm.core.track_info import TrackInfo
from tonearm.decoder.messages import DropSource, Plan


def live_player(*names: str) -> PlayerBench:
    """Plays a live stream of which ten frames are here."""
    bench = PlayerBench(*(names or ("a",)))
    bench.listen()
    bench.opened_live(1)
    bench.audio(0, 10, marks=[(BEGIN, 0, 1)])
    return bench


def shown(bench: PlayerBench) -> TrackInfo:
    return bench.player.status().track.info


# Titles


async def test_a_title_is_reported_with_the_frame_that_it_begins_in() -> None:
    bench = live_player()
    bench.titled(1, 4, "One")
    bench.titled(1, 7, "Two")
    bench.tick(4)
    assert len(bench.listener) == 4
    assert bench.events.named("StreamTitle") == []
    bench.tick(1)
    assert [event["title"] for event in bench.events.named("StreamTitle")] == ["One"]
    assert (shown(bench).title, shown(bench).author) == ("One", "Test FM")
    bench.tick(4)
    assert [event["title"] for event in bench.events.named("StreamTitle")] == ["One", "Two"]


# Streams that come next


async def test_a_stream_that_is_next_is_opened_near_the_end_although_skips_fade() -> None:
    bench = PlayerBench("a", "live")
    bench.player.do(Requests.change_crossfade, CrossfadeEdit(duration_ms=1000, on_skip=True))
    bench.listen()
    bench.opened(1)
    bench.audio(0, 2500, marks=[(BEGIN, 0, 1)])
    bench.tick()
    assert bench.plan.following == 2
    bench.opened_live(2)
    bench.tick(48 * 50)
    assert bench.plan.following is None
    bench.tick(2 * 50)
    assert bench.plan.following == 3
    bench.opened_live(3)
    assert bench.plan.following == 3


# Sound that stays away


def stalled() -> PlayerBench:
    return playing("a", sent=12)


def of_two_seconds() -> PlayerBench:
    """Its next track, which does not answer, is opened from the beginning on."""
    bench = PlayerBench("a", "silent")
    bench.start(100)
    bench.decoded(1)
    return bench


def of_a_retry() -> PlayerBench:
    """The next attempt is made after two seconds, in the event loop's own time."""
    bench = PlayerBench("a")
    bench.player.do(Requests.set_loop, LoopMode.TRACK)
    bench.start()
    bench.failed(1, CONNECTION_LOST, gave_audio=True)
    bench.audio(10, 0, position=10 * FRAME_SAMPLES, marks=[(INTERRUPTED, 10, 1)])
    bench.tick(12)
    bench.failed(2, CONNECTION_LOST)  # it was opened while the end was sent
    return bench


def goes_on(bench: PlayerBench) -> None:
    bench.audio(10, 10)
    bench.tick(12)


HAPPENS: Mapping[str, Callable[[PlayerBench], object]] = {
    "comes": PlayerBench.listen,
    "delete": lambda bench: asyncio.ensure_future(bench.player.delete()),
    "sound": goes_on,
    "opened": lambda bench: bench.opened(1),
    "end": lambda bench: bench.audio(100, 0, position=0, marks=[(END, 100, 1)]),
    "free": lambda bench: bench.opener.free.set(),
}
STUCK, FAILED, LOST = "stuck: the decoder is busy", "failed: read timeout", "failed: read connection_lost"
OPENING, RESOLVING = "stuck: the source is being opened", "stuck: the page is being resolved"


@pytest.mark.parametrize(
    ("begin", "story"),
    [
        # is told after 10 s and once
        (stalled, [9.7, 0.4, STUCK, 10]),
        # is given up after 30
        (stalled, [29, STUCK, 2, FAILED, 100]),
        # ends with sound
        (stalled, [15, STUCK, "sound", 9, 2, STUCK]),
        # is not counted in a pause
        (stalled, [8, "pause", 100, "play", 9, 2, STUCK, "pause", 100, "play", 19, 2, FAILED]),
        # gone
        (stalled, [5, "delete", 100]),
        # from the start on
        (partial(PlayerBench, "silent"), ["comes", 9.9, 0.2, OPENING, 19.8, 0.2, "failed: connect timeout", 100]),
        # with a source that opens and gives nothing
        (partial(PlayerBench, "a"), ["comes", 25, STUCK, "opened", 4.9, 0.2, "failed: decode timeout"]),
        # from the first listener on
        (partial(PlayerBench, "silent", wait_ms=60_000), [59, "comes", 9, 2, OPENING]),
        # from the end of a pause on
        (partial(PlayerBench, "silent"), ["pause", "comes", 100, "play", 9, 2, OPENING]),
        # from the track's turn on
        (of_two_seconds, [1.9, "end", 9, 2, OPENING]),
        # not in the delay of a retry
        (of_a_retry, [LOST, LOST, 100, "delete"]),
        # from the resolver's turn on
        (partial(PlayerBench, "queued"), ["comes", 100, "free", 9.9, 0.2, RESOLVING, 20, "failed: resolve timeout"]),
    ],
)
async def test_a_stall(begin: Callable[[], PlayerBench], story: list[float | str]) -> None:
    """Seconds that pass, what happens then, and what is told; nothing else is told."""
    bench = begin()
    told: list[str] = []
    for part in story:
        await bench.settle()
        if isinstance(part, float | int):
            assert told_of_stalls(bench) == told
            bench.time.forward(part)
        elif part in HAPPENS:
            HAPPENS[part](bench)
        elif part in ("pause", "play"):
            bench.ask(part)
        else:
            told.append(part)
    assert told_of_stalls(bench) == told


def told_of_stalls(bench: PlayerBench) -> list[str]:
    return [
        f"stuck: {event['cause']}"
        if event["op"] == "TrackStuck"
        else f"failed: {event['error']['stage']} {event['error']['code']}"
        for event in bench.events.events
        if event["op"] in ("TrackStuck", "TrackException")
    ]


async def test_who_waits_for_a_busy_node_is_told_why_and_waits_as_long_as_it_takes() -> None:
    bench = playing("a", sent=10)
    bench.player.add_overlays((make_track("clip"), OverlaySettings()))
    bench.pool.is_full = True
    bench.pool.lose()
    bench.tick(2)
    bench.time.forward(1000)
    (event,) = bench.events.named("TrackStuck")
    assert "node is overloaded" in event["cause"]
    status = bench.player.status()
    assert (status.state, status.quality.waiting_for_room_ms) == ("loading", 7000)
    assert told_of_stalls(bench)[1:] == []
    assert bench.events.named("OverlayException") == []

    bench.pool.is_full = False
    await bench.lose()
    assert bench.started_at[1] == 10 * FRAME_SAMPLES
    assert bench.player.status().quality.waiting_for_room_ms is None
    bench.time.forward(31)  # now it is the source's own fault
    assert len(bench.events.named("TrackException")) == len(bench.events.named("OverlayException")) == 1


# Pauses of live streams


async def test_a_short_pause_goes_on_with_what_is_here_and_that_of_a_file_may_be_long() -> None:
    for bench, pause_s in ((live_player(), 9.5), (playing("a"), 1000)):
        bench.tick(3)
        bench.player.do(Requests.pause)
        bench.time.forward(pause_s)
        bench.player.do(Requests.play)
        bench.tick(4)
        assert bench.listener.messages[:7] == [frame(number) for number in range(7)]
        bench.time.forward(1)
        assert len(bench.pool.sessions) == 1
        assert DropSource(1, 1) not in bench.session.orders


async def test_a_long_pause_lets_the_stream_go_and_joins_it_where_it_is_then() -> None:
    bench = live_player()
    await bench.settle()
    bench.tick(3)
    bench.titled(1, 2, "One")
    bench.tick(1)
    bench.player.do(Requests.pause)
    bench.time.forward(10.5)
    assert bench.pool.owners == {}, "the session is closed"
    bench.pool.lose()  # the death of its process changes nothing
    assert (bench.player.status().position_ms, len(bench.pool.sessions)) == (80, 1)
    bench.player.do(Requests.play)
    await bench.settle()
    assert len(bench.pool.sessions) == 2
    assert bench.started_at == {1: 4 * FRAME_SAMPLES}
    assert bench.orders(Plan)[-1].switch_to == 1
    bench.tick(2)
    bench.opened_live(1)
    first = bench.plan.at_frame
    bench.audio(first, 10, position=4 * FRAME_SAMPLES, marks=[(BEGIN, first, 1)], voice=9)
    bench.tick(4)
    assert bench.listener.messages[4] == frame(first, 9), "nothing of before the pause is heard"
    assert bench.player.status().position_ms in range(120, 181, 20)
    assert [op for op in bench.events.ops if op in ("TrackStart", "TrackEnd")] == ["TrackStart"]
    assert shown(bench).title == "One"
    bench.player.do(Requests.pause)
    bench.time.forward(10.5)
    await bench.player.delete()
    assert bench.events.ops[-1] == "PlayerDelete"
    assert bench.time.waiting_timers == 0

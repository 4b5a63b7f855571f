"""A player with streams, in time that is turned by hand: titles, sound that stays away, long pauses."""

import pytest

from tests.support.player_bench import BEGIN, END, INTERRUPTED, PlayerBench, frame, playing
from tests.support.tracks import CONNECTION_LOST
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback_requests import Requests
from tonearm.core.track_info import TrackInfo
from tonearm.decoder.messages import DropSource, OpenSession, Plan


def live_player(*names: str) -> PlayerBench:
    """Plays a live stream of which ten frames are here."""
    bench = PlayerBench(*(names or ("a",)))
    bench.listen()
    bench.opened_live(1)
    bench.audio(0, 10, marks=[(BEGIN, 0, 1)])
    return bench


def shown(bench: PlayerBench) -> TrackInfo:
    return bench.player.status().track.info


def emitted(bench: PlayerBench, *ops: str) -> list[str]:
    return [op for op in bench.events.ops if op in ops]


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


async def test_titles_of_a_source_that_was_left_are_not_emitted() -> None:
    bench = live_player("a", "b")
    bench.titled(1, 4, "One")
    bench.player.do(Requests.skip)
    bench.begin(2)
    bench.tick(10)
    assert bench.events.named("StreamTitle") == []


# Sound that stays away


STUCK, FAILED = "TrackStuck", "TrackException"


@pytest.mark.parametrize(
    "story",
    [
        [9.7, 0.4, STUCK, 10],
        [29, STUCK, 2, FAILED, 100],
        [15, STUCK, "sound", 9, 2, STUCK],
        [8, "pause", 100, "play", 9, 2, STUCK, "pause", 100, "play", 19, 2, FAILED],
        [5, "delete", 100],
    ],
    ids=["is told after 10 s and once", "is given up after 30", "ends with sound", "is not counted in a pause", "gone"],
)
async def test_a_stall(story: list[float | str]) -> None:
    """Seconds that pass, what happens then, and what is told; nothing else is told."""
    bench = playing("a", sent=12)
    assert bench.player.status().state == "loading"
    told: list[str] = []
    for part in story:
        match part:
            case "pause":
                bench.player.do(Requests.pause)
            case "play":
                bench.player.do(Requests.play)
            case "delete":
                await bench.player.delete()
            case "sound":
                bench.audio(10, 10)
                bench.tick(12)
            case str():
                told.append(part)
            case seconds:
                assert emitted(bench, STUCK, FAILED) == told
                bench.time.forward(seconds)
    assert emitted(bench, STUCK, FAILED) == told


async def test_the_first_listener_of_a_player_that_waits_for_room_has_it_ask_again() -> None:
    bench = PlayerBench("a")
    bench.pool.is_full = True
    bench.pool.lose()
    sessions = len(bench.pool.sessions)
    bench.pool.is_full = False  # for whoever is heard: nobody else is told
    bench.listen()
    await bench.settle()
    assert len(bench.pool.sessions) == sessions + 1
    assert bench.started_at == {1: 0}
    assert bench.orders(OpenSession)[0].is_heard


async def test_who_waits_for_a_busy_node_is_told_why_and_waits_as_long_as_it_takes() -> None:
    bench = playing("a", sent=10)
    bench.pool.is_full = True
    bench.pool.lose()
    bench.tick(2)
    bench.time.forward(1000)
    (event,) = bench.events.named("TrackStuck")
    assert "node is overloaded" in event["cause"]
    status = bench.player.status()
    assert (status.state, status.quality.waiting_for_room_ms) == ("loading", 7000)
    assert bench.events.named("TrackException") == []

    bench.pool.is_full = False
    await bench.lose()
    assert bench.started_at == {1: 10 * FRAME_SAMPLES}
    assert bench.player.status().quality.waiting_for_room_ms is None
    bench.time.forward(31)  # now it is the source's own fault
    assert emitted(bench, "TrackException") == ["TrackException"]


# Sources that never start


async def test_a_track_that_does_not_begin_is_reported_after_10_s_and_given_up_after_30() -> None:
    bench = PlayerBench("silent", "b")
    bench.listen()
    await bench.settle()
    bench.time.forward(9.9)
    assert emitted(bench, "TrackStuck", "TrackException") == []
    bench.time.forward(0.2)
    (stuck,) = bench.events.named("TrackStuck")
    assert (stuck["thresholdMs"], stuck["cause"]) == (10_000, "the source is being opened")
    bench.time.forward(19.8)
    assert emitted(bench, "TrackException") == []
    bench.time.forward(0.2)
    (failure,) = bench.events.named("TrackException")
    assert (failure["error"]["code"], failure["error"]["stage"]) == ("timeout", "connect")
    assert "30 seconds" in failure["error"]["message"]
    assert "sources.start_timeout_s" in failure["error"]["hint"]
    assert [event["reason"] for event in bench.events.named("TrackEnd")] == ["loadFailed"]
    assert shown(bench).title == "b"
    await bench.settle()
    bench.begin(2, frames=20)
    bench.tick(2)
    assert bench.player.status().state == "playing"
    bench.time.forward(0.2)
    assert emitted(bench, "TrackStuck", "TrackException") == ["TrackStuck", "TrackException"]


async def test_a_source_that_opened_and_gives_nothing_is_given_up_in_the_same_time() -> None:
    bench = PlayerBench("a")
    bench.listen()
    await bench.settle()
    bench.time.forward(25)
    bench.opened(1)
    bench.time.forward(4.9)
    assert emitted(bench, "TrackException") == []
    bench.time.forward(0.2)
    assert bench.events.named("TrackException")[0]["error"]["stage"] == "decode"
    assert bench.player.status().state == "failed"


async def test_the_time_of_a_start_begins_with_the_tracks_turn() -> None:
    without_listeners = PlayerBench("silent", wait_ms=60_000)
    without_listeners.time.forward(59)
    assert emitted(without_listeners, "TrackStuck") == []
    without_listeners.listen()
    without_listeners.time.forward(9)
    assert emitted(without_listeners, "TrackStuck") == []
    without_listeners.time.forward(2)
    assert emitted(without_listeners, "TrackStuck") == ["TrackStuck"]

    paused = PlayerBench("silent")
    paused.player.do(Requests.pause)
    paused.listen()
    paused.time.forward(100)
    assert emitted(paused, "TrackStuck") == []
    paused.player.do(Requests.play)
    paused.time.forward(11)
    assert emitted(paused, "TrackStuck") == ["TrackStuck"]

    ahead = PlayerBench("a", "silent")
    ahead.listen()
    ahead.opened(1, length_ms=12_000)
    ahead.audio(0, 600, marks=[(BEGIN, 0, 1)])
    ahead.time.forward(11.9)  # the next one is being opened for ten seconds now
    ahead.audio(600, 0, position=0, marks=[(END, 600, 1)])
    ahead.time.forward(5)
    assert shown(ahead).title == "silent"
    assert emitted(ahead, "TrackStuck") == []
    ahead.time.forward(6)
    assert emitted(ahead, "TrackStuck") == ["TrackStuck"]


async def test_waiting_for_a_place_at_the_resolver_does_not_count() -> None:
    bench = PlayerBench("queued")
    bench.listen()
    await bench.settle()
    bench.time.forward(100)
    assert emitted(bench, "TrackStuck", "TrackException") == []
    bench.opener.free.set()
    await bench.settle()
    bench.time.forward(10.1)
    assert bench.events.named("TrackStuck")[0]["cause"] == "the page is being resolved"
    bench.time.forward(20)
    assert bench.events.named("TrackException")[0]["error"]["stage"] == "resolve"


async def test_the_delay_before_a_retry_does_not_count() -> None:
    bench = PlayerBench("a")
    bench.player.do(Requests.set_loop, LoopMode.TRACK)
    bench.start(10)
    bench.failed(1, CONNECTION_LOST, gave_audio=True)
    bench.audio(10, 0, position=10 * FRAME_SAMPLES, marks=[(INTERRUPTED, 10, 1)])
    bench.tick(12)
    bench.failed(2, CONNECTION_LOST)  # it was opened while the end was sent
    assert [event["reason"] for event in bench.events.named("TrackEnd")] == ["loadFailed"] * 2
    await bench.settle()  # the next attempt is made after two seconds, in the event loop's own time
    bench.time.forward(100)
    assert emitted(bench, "TrackStuck") == []
    await bench.player.delete()


# Pauses of live streams


async def test_a_short_pause_goes_on_with_what_is_here() -> None:
    bench = live_player()
    bench.tick(3)
    bench.player.do(Requests.pause)
    bench.time.forward(9.5)
    bench.player.do(Requests.play)
    bench.tick(4)
    assert bench.listener.messages[:7] == [frame(number) for number in range(7)]
    assert len(bench.pool.sessions) == 1
    bench.time.forward(1)
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
    assert bench.player.status().position_ms == 80
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
    assert emitted(bench, "TrackStart", "TrackEnd") == ["TrackStart"]
    assert shown(bench).title == "One"


async def long_paused(*names: str) -> PlayerBench:
    bench = live_player(*names)
    await bench.settle()
    bench.player.do(Requests.pause)
    bench.time.forward(11)
    return bench


async def test_skip_in_a_long_pause_opens_the_next_track() -> None:
    bench = await long_paused("a", "b")
    bench.player.do(Requests.skip)
    await bench.settle()
    assert bench.started_at == {2: 0}
    bench.begin(2)
    bench.player.do(Requests.play)
    bench.tick(5)
    assert shown(bench).title == "b"
    assert len(bench.listener) > 0


async def test_the_station_after_a_skip_is_let_go_as_well() -> None:
    """Its track knows from the last time that it is live."""
    bench = live_player("a", "b")
    bench.player.do(Requests.set_loop, LoopMode.QUEUE)
    bench.player.do(Requests.skip)
    bench.opened(2)
    await bench.settle()
    bench.player.do(Requests.pause)
    bench.player.do(Requests.skip)
    await bench.settle()
    assert bench.started_at[3] == 0
    bench.time.forward(9)
    assert bench.pool.owners
    bench.time.forward(2)
    assert not bench.pool.owners


async def test_a_file_may_be_paused_for_long() -> None:
    bench = playing("a")
    bench.player.do(Requests.pause)
    bench.time.forward(1000)
    bench.player.do(Requests.play)
    bench.tick(5)
    assert len(bench.pool.sessions) == 1
    assert len(bench.listener) > 0


async def test_a_process_that_dies_in_a_long_pause_changes_nothing() -> None:
    bench = await long_paused()
    bench.pool.lose()
    assert len(bench.pool.sessions) == 1
    bench.player.do(Requests.play)
    assert len(bench.pool.sessions) == 2


async def test_delete_in_a_long_pause() -> None:
    bench = await long_paused()
    await bench.player.delete()
    assert bench.events.ops[-1] == "PlayerDelete"
    assert bench.time.waiting_timers == 0

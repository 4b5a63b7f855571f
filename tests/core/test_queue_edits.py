"""Editing the queue: what waits, in which order, and what is opened for it."""

from collections.abc import Callable

import pytest

from tests.support.playback_log import (
    PlaybackLog,
    failed_player,
    names_queued,
    new_player,
    playing_player,
    stopped_player,
)
from tests.support.tracks import make_track
from tonearm.core.errors import BadRequest, LimitReached, TrackNotFound
from tonearm.core.events import PlayerState, QueueUpdate
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback import Playback
from tonearm.core.playback_state import Outcome

Edit = Callable[[Playback], Outcome]


def versions(log: PlaybackLog) -> list[tuple[int, int]]:
    """Length and version of each QueueUpdate."""
    return [(event.length, event.version) for event in log.events if isinstance(event, QueueUpdate)]


EDITS: list[tuple[str, Edit, str]] = [
    ("abcd", lambda player: player.enqueue(make_track("x")), "bcdx"),
    ("abcd", lambda player: player.enqueue(make_track("x"), index=0), "xbcd"),
    ("abcd", lambda player: player.enqueue(make_track("x"), make_track("y"), index=1), "bxycd"),
    ("abcd", lambda player: player.enqueue(make_track("x"), index=3), "bcdx"),
    ("abcd", lambda player: player.enqueue(make_track("x"), index=10**30), "bcdx"),
    ("a", lambda player: player.enqueue(make_track("x"), index=0), "x"),
    ("abcd", lambda player: player.clear_queue(), ""),
    ("a", lambda player: player.clear_queue(), ""),
    ("abcd", lambda player: player.remove("b"), "cd"),
    ("abcd", lambda player: player.remove("d"), "bc"),
    ("abcd", lambda player: player.move("b", 0), "bcd"),
    ("abcd", lambda player: player.move("b", 1), "cbd"),
    ("abcd", lambda player: player.move("b", 2), "cdb"),
    ("abcd", lambda player: player.move("b", 10**30), "cdb"),
    ("abcd", lambda player: player.move("d", 0), "dbc"),
    ("abcd", lambda player: player.shuffle((2, 0, 1)), "dbc"),
    ("abcd", lambda player: player.shuffle((0, 1, 2)), "bcd"),
    ("a", lambda player: player.shuffle(()), ""),
]


@pytest.mark.parametrize("mode", LoopMode)
@pytest.mark.parametrize("is_due", [False, True])
@pytest.mark.parametrize(("names", "edit", "queue"), EDITS)
def test_an_edit_of_the_queue(names: str, edit: Edit, queue: str, is_due: bool, mode: LoopMode) -> None:
    log = playing_player(names, mode)
    player = log.playback
    if is_due:
        log.do(player.next_is_due())
    before, version = names_queued(player), player.queue_version
    lines = log.do(edit(player))
    assert (player.current.id, names_queued(player), player.state) == ("a", queue, PlayerState.PLAYING)
    # An order that is the same is no change.
    assert (f"QueueUpdate {len(queue)}" in lines) == (queue != before)
    assert player.queue_version == version + (queue != before)
    # What is open is what comes next.
    comes_next = {LoopMode.NONE: queue[:1], LoopMode.TRACK: "a", LoopMode.QUEUE: (queue + "a")[:1]}[mode]
    assert "".join(log.open_sources.values()) == "a" + (comes_next if is_due else "")
    # The sound of what plays is left alone.
    assert 1 in log.open_sources
    assert "drop 1" not in lines


def test_each_change_has_a_length_and_a_version() -> None:
    log = playing_player("abc")
    player = log.playback
    log.do(player.move("c", 0))
    log.do(player.remove("b"))
    log.do(player.clear_queue())
    log.do(player.clear_queue())
    assert versions(log) == [(1, 1), (2, 2), (2, 3), (1, 4), (0, 5)]
    assert player.queue_version == 5


@pytest.mark.parametrize("index", [-1, -(10**30)])
def test_a_negative_index_is_refused(index: int) -> None:
    log = playing_player("abc")
    with pytest.raises(BadRequest, match="`index`"):
        log.playback.enqueue(make_track("x"), index=index)
    with pytest.raises(BadRequest, match="`index`"):
        log.playback.move("b", index)
    assert names_queued(log.playback) == "bc"


@pytest.mark.parametrize("track_id", ["a", "z", ""])
def test_only_what_waits_can_be_edited(track_id: str) -> None:
    log = playing_player("abc")
    player = log.playback
    with pytest.raises(TrackNotFound):
        player.remove(track_id)
    with pytest.raises(TrackNotFound):
        player.move(track_id, 0)
    with pytest.raises(TrackNotFound):
        player.skip(track_id)
    assert (player.current.id, names_queued(player)) == ("a", "bc")


def test_too_many_at_once_are_refused_as_a_whole() -> None:
    log = PlaybackLog(make_track("a"), max_waiting_tracks=2)
    with pytest.raises(LimitReached):
        log.playback.enqueue(*map(make_track, "xyz"), index=0)
    assert log.playback.queue_length == 0
    log.do(log.playback.enqueue(*map(make_track, "xy")))
    with pytest.raises(LimitReached):
        log.playback.replace(make_track("z"), make_track("w"))
    assert (log.playback.current.id, names_queued(log.playback)) == ("a", "xy")


@pytest.mark.parametrize("index", [None, 0, 1])
def test_a_stopped_player_goes_on_with_the_front_of_its_queue(index: int | None) -> None:
    log = stopped_player("abc")
    log.do(log.playback.enqueue(make_track("x"), index=index))
    expected = {None: ("b", "cx"), 0: ("x", "bc"), 1: ("b", "xc")}[index]
    assert (log.playback.current.id, names_queued(log.playback)) == expected


def test_a_failed_player_goes_on_with_the_front_of_its_queue() -> None:
    log = failed_player("ab")
    assert log.playback.state is PlayerState.FAILED
    log.do(log.playback.enqueue(make_track("x"), index=0))
    assert (log.playback.current.id, names_queued(log.playback)) == ("x", "b")


@pytest.mark.parametrize("make", [stopped_player, failed_player])
@pytest.mark.parametrize(
    ("edit", "queue"),
    [
        (lambda player: player.clear_queue(), ""),
        (lambda player: player.remove("b"), "c"),
        (lambda player: player.move("c", 0), "cb"),
        (lambda player: player.shuffle((1, 0)), "cb"),
    ],
)
def test_editing_what_waits_starts_nothing(make: Callable[[str], PlaybackLog], edit: Edit, queue: str) -> None:
    log = make("abc")
    state = log.playback.state
    assert log.do(edit(log.playback)) == [f"QueueUpdate {len(queue)}"]
    assert (log.playback.state, log.playback.current.id, names_queued(log.playback)) == (state, "a", queue)
    assert log.open_sources == {}


# Skipping to a track


@pytest.mark.parametrize(
    ("mode", "to", "current", "queue"),
    [
        (LoopMode.NONE, "b", "b", "cd"),
        (LoopMode.NONE, "d", "d", ""),
        (LoopMode.TRACK, "c", "c", "d"),
        (LoopMode.QUEUE, "b", "b", "cda"),
        (LoopMode.QUEUE, "c", "c", "dab"),
        (LoopMode.QUEUE, "d", "d", "abc"),
    ],
)
def test_skip_to_a_track_passes_what_lies_before_it(mode: LoopMode, to: str, current: str, queue: str) -> None:
    log = playing_player("abcd", mode)
    lines = log.do(log.playback.skip(to))
    assert lines[:3] == ["TrackEnd a skipped", f"QueueUpdate {len(queue)}", "PlayerUpdate loading"]
    assert (log.playback.current.id, names_queued(log.playback)) == (current, queue)


@pytest.mark.parametrize(
    ("mode", "to", "current", "queue"),
    [
        (LoopMode.NONE, None, "b", "cd"),
        (LoopMode.QUEUE, None, "b", "cd"),
        (LoopMode.NONE, "c", "c", "d"),
        (LoopMode.QUEUE, "c", "c", "db"),
    ],
)
def test_skip_of_a_stopped_player_ends_nothing(mode: LoopMode, to: str | None, current: str, queue: str) -> None:
    log = stopped_player("abcd", mode)
    lines = log.do(log.playback.skip(to))
    assert lines == [f"QueueUpdate {len(queue)}", "PlayerUpdate loading", f"open 2 {current}"]
    assert (log.playback.current.id, names_queued(log.playback)) == (current, queue)


def test_what_never_gave_audio_is_not_brought_back_by_skip_to() -> None:
    log = failed_player("abc")
    log.do(log.playback.set_loop(LoopMode.QUEUE))
    log.do(log.playback.skip("c"))
    assert (log.playback.current.id, names_queued(log.playback)) == ("c", "b")


def test_skip_to_takes_over_the_source_that_was_opened_ahead() -> None:
    log = new_player("abc")
    log.do(log.playback.start_clock())
    log.do(log.playback.next_is_due())
    assert log.do(log.playback.skip("b"))[-1] == "drop 1"
    assert log.playback.current_source == 2

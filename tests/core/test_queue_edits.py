"""Editing the queue: what waits, in which order, and what is opened for it."""

from collections.abc import Callable

import pytest

from tests.support.playback_log import (
    PlaybackLog,
    failed_player,
    names_queued,
    playing_player,
    stopped_player,
    stories,
    tell,
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
def test_an_edit_of_the_queue(is_due: bool, mode: LoopMode) -> None:
    for names, edit, queue in EDITS:
        assert_edited(names, edit, queue, is_due=is_due, mode=mode)


def assert_edited(names: str, edit: Edit, queue: str, *, is_due: bool, mode: LoopMode) -> None:
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


@stories(
    """
a stopped player goes on with the front of its queue
    stopped abc
    enqueue x: QueueUpdate 2, PlayerUpdate loading, open 2 b; is: loading b cx

where the front is the new track with that
    stopped abc
    enqueue x 0: PlayerUpdate loading, open 2 x; is: loading x bc

and where it comes second with the one before it
    stopped abc
    enqueue x 1: QueueUpdate 2, PlayerUpdate loading, open 2 b; is: loading b xc

a failed player goes on with the front of its queue
    failed ab
    enqueue x 0: PlayerUpdate loading, open 6 x; is: loading x b

what never gave audio is not brought back by skip to
    failed abc; loop queue
    skip c: TrackEnd a skipped, QueueUpdate 1, PlayerUpdate loading, open 6 c; is: loading c b

skip to takes over the source that was opened ahead
    loading abc; due
    skip b: TrackEnd a skipped, QueueUpdate 1, drop 1; open: 2 b
"""
)
def test_what_plays_next(story: str) -> None:
    tell(story)

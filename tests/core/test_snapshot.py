"""A player that is made of another one's snapshot plays on as that one does, and where it would be by now."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from tests.core.test_playback_model import PlaybackMachine
from tests.support.examples import examples
from tests.support.playback_log import SONG, loading_player, playing_player
from tests.support.saved import state_out
from tests.support.tracks import make_track
from tonearm.core.crossfade import CrossfadeCurve, CrossfadeEdit, CrossfadeSettings
from tonearm.core.errors import BadRequest
from tonearm.core.events import PlayerState
from tonearm.core.filters import Effects, FilterChange, Filters, Timescale
from tonearm.core.metadata import JsonObject
from tonearm.core.play_queue import LoopMode, QueuedTrack
from tonearm.core.playback import Playback
from tonearm.core.playback_state import Outcome
from tonearm.core.snapshot import PlayerSnapshot, Resume, played_on, resumed
from tonearm.core.track_info import SourceFacts
from tonearm.protocol.saved_state import SavedPlayer, read_state
from tonearm.protocol.wire_model import json_text


def read_back(snapshot: PlayerSnapshot) -> PlayerSnapshot:
    """The snapshot when it was written and read."""
    text = json_text(state_out(snapshot, 1))
    again = SavedPlayer.model_validate_json(text).as_snapshot()
    assert json_text(state_out(again, 1)) == text
    return again


class RestartedPlaybackMachine(PlaybackMachine):
    """Any story of a player, which is written, read and made anew time and again in between."""

    @rule()
    def restart(self) -> None:
        had_started = self._has_started()
        snapshot = read_back(self.playback.snapshot())
        self.log.playback = self.playback = Playback(
            "player", None, {}, snapshot=snapshot, now_s=lambda: self.log.now_ms / 1000
        )
        self.log.open_sources.clear()
        self.unreported.clear()
        self.fading.clear()
        model = self.model
        self.last_version = 0
        if not model.has_stopped:
            self.last_state = "loading"
            if model.known.get(model.current) is False:
                model.position_ms = 0
            model.sought_ms = model.position_ms
        model.own_error_ms = -math.inf
        self._do(self.playback.begin(), at_once=True)
        self.started = self.playback.current_source if had_started else None
        if snapshot.clock_started:
            self._finish_if_behind_end()
            self._do(self.playback.start_clock())


RestartedPlaybackMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=40)
TestRestartedPlayback = RestartedPlaybackMachine.TestCase


def snapshot_of(names: str, mode: LoopMode = LoopMode.NONE) -> PlayerSnapshot:
    """A player 10 s into the first of `names`, all of which last 60 s."""
    log = playing_player(names, mode)
    log.playback.position_ms = 10_000
    snapshot = log.playback.snapshot()
    for queued in snapshot.queue:
        queued.track = queued.track.with_facts(SONG)
    return snapshot


class Part(NamedTuple):
    """A track: the part of its file that it plays, and the file's length; None where that is not known."""

    length_ms: int | None = 60_000
    start_ms: int = 0
    end_ms: int | None = None
    is_stream: bool = False
    failures: int = 0

    def queued(self, name: str) -> QueuedTrack:
        track = replace(make_track(name), start_ms=self.start_ms, end_ms=self.end_ms)
        if self.length_ms is not None or self.is_stream:
            track = track.with_facts(SourceFacts(self.length_ms or 0, is_seekable=True, is_stream=self.is_stream))
        return QueuedTrack(track, gave_audio=True, failures=self.failures)


def fading(
    *parts: Part,
    mode: LoopMode = LoopMode.NONE,
    speed: float = 1.0,
    position_ms: int = 10_000,
) -> PlayerSnapshot:
    """A player of tracks a, b, c …, at a position in the first one, which fade into each other for 8 s."""
    current, *queue = (part.queued(name) for name, part in zip("abcdef", parts, strict=False))
    filters = Filters(effects=Effects(timescale=Timescale(speed=speed)))
    snapshot = replace(snapshot_of("a", mode), current=current, queue=tuple(queue), position_ms=position_ms)
    return replace(snapshot, filters=filters, crossfade=CrossfadeSettings(8_000))


WHOLE, UNKNOWN, RADIO = Part(), Part(None), Part(None, is_stream=True)
MIDDLE = Part(start_ms=20_000, end_ms=40_000)


@pytest.mark.parametrize(
    ("snapshot", "passed_ms", "current", "position_ms"),
    [
        # The next one begins where the fade does, 8 s before the end.
        (fading(WHOLE, WHOLE), 42_000, "b", 0),
        # The last one has nothing to fade into.
        (fading(WHOLE, WHOLE), 42_000 + 59_999, "b", 59_999),
        # Loops: a track fades into itself, and the ended one comes back.
        (fading(WHOLE, WHOLE, mode=LoopMode.TRACK), 42_000 + 52_000 + 1_000, "a", 1_000),
        (fading(WHOLE, WHOLE, mode=LoopMode.QUEUE), 42_000 + 52_000 + 52_000 + 7, "b", 7),
        # Parts of files: positions are the file's.
        (fading(MIDDLE, MIDDLE, position_ms=25_000), 6_999, "a", 31_999),
        (fading(Part(None, end_ms=30_000), WHOLE), 12_000, "b", 0),
        # The fade's length is time heard, positions are the file's.
        (fading(WHOLE, WHOLE, speed=2.0), 16_999, "a", 43_998),
        (fading(WHOLE, WHOLE, speed=2.0), 17_500, "b", 1_000),
        # With a length that is not known, or a track that waits to be tried again, they join.
        (fading(WHOLE, UNKNOWN), 49_999, "a", 59_999),
        (fading(WHOLE, UNKNOWN), 90_000, "b", 0),
        (fading(WHOLE, RADIO), 49_999, "a", 59_999),
        (fading(RADIO, WHOLE), 59_000, "a", 69_000),
        (fading(WHOLE, Part(failures=2)), 49_999, "a", 59_999),
        # Behind the begin of the fade its rest is left.
        (fading(WHOLE, WHOLE, position_ms=58_000), 1_000, "b", 999),
        # Behind an estimated length the end is not known.
        (fading(WHOLE, WHOLE, position_ms=61_000), 5_000, "a", 61_000),
        (fading(Part(end_ms=90_000), WHOLE, position_ms=61_000), 5_000, "a", 66_000),
        # Without fades they join, what is paused stands, and a clock that goes back changes nothing.
        (snapshot_of("abc"), 50_000 + 65_000, "c", 5_000),
        (snapshot_of("abc", LoopMode.QUEUE), 235_000, "b", 5_000),
        (replace(snapshot_of("ab"), paused=True), 90_000, "a", 10_000),
        (snapshot_of("ab"), -5, "a", 10_000),
    ],
)
def test_in_the_absence_tracks_fade_into_each_other_as_they_do_otherwise(
    snapshot: PlayerSnapshot, passed_ms: int, current: str, position_ms: int
) -> None:
    now = played_on(snapshot, 1_000, 1_000 + passed_ms)
    assert now.current is not None
    assert (now.current.track.id, now.position_ms) == (current, position_ms)
    assert now.state is PlayerState.PLAYING
    tracks = {track.track.id for track in (now.current, *now.queue, *(played.queued_track for played in now.history))}
    assert tracks == {queued.track.id for queued in (snapshot.current, *snapshot.queue) if queued}


def test_a_player_whose_queue_is_over_is_idle_and_has_its_history() -> None:
    now = played_on(snapshot_of("ab"), 1_000, 500_000)
    assert (now.state, now.position_ms) == (PlayerState.IDLE, 60_000)
    assert [(played.track.id, played.ended_at_ms) for played in now.history] == [("b", 111_000), ("a", 51_000)]
    faded = played_on(fading(WHOLE, WHOLE), 1_000, 50_000)
    assert [(played.track.id, played.ended_at_ms) for played in faded.history] == [("a", 43_000)]


def restored(snapshot: PlayerSnapshot) -> Playback:
    playback = Playback("player", None, {}, snapshot=read_back(snapshot))
    playback.begin()
    playback.start_clock()
    return playback


@pytest.mark.parametrize("request_", [Playback.pause, Playback.stop, Playback.skip])
def test_a_player_that_is_still_loading_since_it_was_restored_plays_on_and_others_that_load_do_not(
    request_: Callable[[Playback], Outcome],
) -> None:
    """Not even one that sounded: its source is slow, and nobody knows for how long it would have been."""
    log = playing_player("a")
    log.do(log.playback.underrun())
    for waiting in (log.playback, loading_player("a").playback):
        assert waiting.state is PlayerState.LOADING
        assert played_on(waiting.snapshot(), 0, 5_000) == waiting.snapshot()

    again = restored(played_on(restored(snapshot_of("ab")).snapshot(), 0, 5_000))
    assert (again.position_ms, again.state) == (15_000, PlayerState.LOADING)
    assert played_on(again.snapshot(), 0, 170_000).state is PlayerState.IDLE
    told_otherwise = restored(again.snapshot())
    request_(told_otherwise)
    assert not told_otherwise.snapshot().moves
    again.opened(1, SONG)
    again.first_frame(1)
    again.underrun()
    assert not again.snapshot().moves


def test_how_players_resume() -> None:
    snapshot = snapshot_of("a")
    failed = replace(snapshot, state=PlayerState.FAILED)
    assert resumed(snapshot, Resume.PLAYING) == snapshot
    assert resumed(snapshot, Resume.PAUSED) == replace(snapshot, paused=True)
    assert (resumed(snapshot, Resume.NEVER).state, resumed(failed, Resume.NEVER)) == (PlayerState.IDLE, failed)


def test_all_that_is_set_comes_back() -> None:
    log = playing_player("ab", LoopMode.QUEUE)
    log.do(log.playback.change_metadata(False, {"a": [1, None, 0.5, "ü"]}))
    log.do(log.playback.change_filters(FilterChange(volume=0.3, gains=((3, -4.5),), effects={"limiter": None})))
    log.do(log.playback.change_crossfade(CrossfadeEdit(3_000, CrossfadeCurve.LINEAR, on_skip=True)))
    again = read_back(log.playback.snapshot())
    assert again.metadata == {"a": [1, None, 0.5, "ü"]}
    assert again.loop_mode is LoopMode.QUEUE
    assert (again.filters, again.crossfade) == (log.playback.filters, log.playback.crossfade)
    assert again.filters.effects == Effects(limiter=None)


def with_id(name: str) -> JsonObject:
    return {"current": name, "tracks": [{"id": name, "uri": "/a.wav"}], "queue": []}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 0}, "version 0"),
        ({"version": 2}, "newer tonearm"),
        ({"queue": ["a", "b"]}, "`current` is in `queue`"),
        ({"queue": ["b", "b"]}, "twice"),
        ({"tracks": [{"id": "a", "uri": "/a.wav"}, {"id": "a", "uri": "/b.wav"}]}, "twice"),
        *((with_id(name), "cannot be named in a path") for name in ("a/b c\n", "ü", "..", "a?b", "50%", "a\n")),
    ],
)
def test_a_record_of_what_no_player_has_is_refused(changes: JsonObject, words: str) -> None:
    record = state_out(snapshot_of("ab"), 1)
    with pytest.raises(BadRequest, match=words):
        read_state({**record, **changes})
    for name in ("7f6b0d0e-3f0a-4e5e-9d0c-6c1f5b0a9d11", "a", "Song.1_~:@+-"):
        current = read_state({**record, **with_id(name)})[1].current
        assert current is not None
        assert current.track.id == name

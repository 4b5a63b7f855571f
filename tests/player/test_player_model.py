"""Whatever is asked of a player: its listener gets the tracks in order, sample for sample, and each goes over into the
next one where it should. And one that sleeps says what one says that stays awake, at the same time."""

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.player_bench import OPENING_S, STEP_S, SleepBench, seconds
from tests.support.simulated_decoder import Piece, Track
from tests.support.sinks import MemoryListener
from tonearm.core.frame import FRAME_MS, SAMPLE_RATE_HZ
from tonearm.core.overlays import MAX_OVERLAYS, OverlaySettings
from tonearm.core.playback_requests import Requests

TRACKS = {
    "second": seconds(1),
    "short": seconds(4.5),
    "odd": Track(17 * SAMPLE_RATE_HZ + 123),
    "long": Track(41 * SAMPLE_RATE_HZ + 777),
    "missing": Track(0),
    "broken": seconds(22.22, breaks=True),
}
NAMES = st.lists(st.sampled_from(sorted(TRACKS)), min_size=1, max_size=4)
MS = st.sampled_from([0, 100, 500, 2_000, 3_000, 8_000, 9_990, 15_500, 16_900, 38_000, 60_000])
CUTS = ("seek", "skip", "replace", "previous")
LATE_MS = 200  # by which the rest of a crossfade may begin after what made it one
MOST_FADE_MS = 12_000
FASTEST = 1.25


class Step(NamedTuple):
    """Something that a client does, with a place, length or volume, and how long nothing is done after it."""

    what: str
    then_s: float
    ms: int = 0
    name: str = "odd"

    @property
    def fade_ms(self) -> int:
        return min(self.ms, MOST_FADE_MS)


def steps_of(what: str, then_s: list[float], max_size: int) -> st.SearchStrategy[list[Step]]:
    whats = st.sampled_from([one.replace("-", " ") for one in what.split()])
    return st.lists(
        st.builds(Step, whats, st.sampled_from(then_s), MS, st.sampled_from(sorted(TRACKS))), max_size=max_size
    )


def require_place(bench: SleepBench, listener: MemoryListener) -> None:
    """The player is where that ends what was heard last."""
    status = bench.player.status()
    if status.state == "playing" and not status.paused:
        last = [piece for content in bench.heard(listener) for piece in content.pieces][-1]
        end_ms = (last.sample + last.samples) * 1000 / SAMPLE_RATE_HZ
        assert abs(status.position_ms - end_ms) <= FRAME_MS * status.filters.effects.position_rate


def is_gapless(before: Piece, piece: Piece) -> bool:
    """Of one source nothing is left out or doubled."""
    return piece.source != before.source or piece.sample == before.sample + before.samples


# What is heard


class Asked(NamedTuple):
    """A request, and how many frames the listener had by then."""

    step: Step
    frames: int
    position_ms: int


@dataclass
class Run:
    """What came of it all. `pieces` are of the listener's frames, each with the frame's number from 0."""

    pieces: list[tuple[int, Piece]]
    names: dict[int, str]
    asked: list[Asked]
    starts: list[tuple[int, str]]  # each with the frame before which it came
    events: list[dict[str, Any]]
    wanted_ids: list[str]
    left_ids: list[str]
    open_sources: int

    def length_ms(self, source: int) -> float:
        return self.samples(source) * 1000 / SAMPLE_RATE_HZ

    def samples(self, source: int) -> int:
        return TRACKS[self.names[source]].samples


async def run(names: list[str], steps: list[Step]) -> Run:
    """Does the steps, then lets everything play to its end."""
    bench = SleepBench(TRACKS, *names)
    listener = bench.listen()
    player = bench.player
    asked: list[Asked] = []
    starts: list[tuple[int, str]] = []

    def note() -> None:
        if bench.events.ops[-1] == "TrackStart":
            starts.append((len(listener), bench.events.events[-1]["track"]["info"]["title"]))

    bench.events.on_send = note
    try:
        await bench.run(0.1)
        for step in steps:
            heard_before = len(listener)
            if step.what != "wait":
                asked.append(Asked(step, heard_before, player.status().position_ms))
            bench.ask(step.what, step.fade_ms if step.what.startswith("fade") else step.ms, step.name)
            await bench.run(step.then_s)
            if step.then_s > 1 and len(listener) > heard_before:
                require_place(bench, listener)
        for _ in range(200):
            if player.status().state in ("idle", "failed") and not player.queue.tracks:
                break
            player.do(Requests.play)
            await bench.run(3)
        left = [track.id for track in player.queue.tracks]
        pieces = [(number, piece) for number, content in enumerate(bench.heard(listener)) for piece in content.pieces]
        open_sources = len(player._engine._session._sources)
    finally:
        await bench.player.delete()
    return Run(pieces, bench.pool.names, asked, starts, bench.events.events, bench.track_ids, left, open_sources)


@settings(max_examples=examples(25))
@given(
    NAMES,
    steps_of(
        "wait wait pause play enqueue enqueue fade fade-on-skip seek seek skip replace previous",
        [0.02, 0.1, 1.0, 3.0, 12.34],
        max_size=10,
    ),
)
@example(["short"], [Step("wait", 12.34), Step("play", 0.02), Step("seek", 0.02)])
@example(["odd", "short"], [Step("fade", 3.0, 4_000), Step("seek", 12.34, 9_990)])
@example(["odd", "long"], [Step("fade", 3.0, 8_000), Step("seek", 12.34, 15_500)])
@example(["odd", "long"], [Step("wait", 12.34), Step("fade", 12.34, 8_000)])
@example(["odd", "odd"], [Step("fade", 12.34, 100), Step("seek", 0.02, 16_900)])
@example(["second"], [Step("wait", 1.02), Step("enqueue", 0.02, name="second"), Step("seek", 0.02)])
@example(["odd", "long", "odd"], [Step("fade on skip", 3.0, 8_000), Step("skip", 1.0)])
def test_tracks_are_heard_in_order_and_go_over_into_each_other_where_they_should(
    names: list[str], steps: list[Step]
) -> None:
    done = asyncio.run(run(names, steps))
    for (before_frame, before), (frame, piece) in itertools.pairwise(done.pieces):
        assert is_gapless(before, piece)
        if piece.source != before.source:
            check_joint(done, before, frame, piece, is_between_frames=before_frame < frame)
    check_events(done)
    assert done.left_ids == []
    assert done.open_sources == 0
    if "missing" not in (*names, *(step.name for step in steps if step.what in ("enqueue", "replace"))):
        check_undisturbed_joints(done)


def check_joint(done: Run, before: Piece, frame: int, piece: Piece, *, is_between_frames: bool) -> None:
    """Another source follows because a client asked for it, because the one before is at its end, or by a crossfade."""
    cuts = [asked for asked in done.asked if asked.frames == frame and asked.step.what in CUTS]
    if cuts and is_between_frames:
        seeks = [asked.step.ms for asked in done.asked if asked.step.what == "seek" and asked.frames <= frame]
        assert piece.sample == 0 or piece.sample * 1000 // SAMPLE_RATE_HZ in seeks
        return
    assert piece.sample == 0, "a track that joins begins with its first sample"
    left = before.sample + before.samples
    if left == done.samples(before.source):
        return
    first_frame = next(number for number, one in done.pieces if one.source == before.source)
    left_ms = left * 1000 / SAMPLE_RATE_HZ
    durations_ms = fade_durations_ms(done, first_frame, frame)
    if left_ms in [fade_at_ms(done, before.source, piece.source, duration_ms) for duration_ms in durations_ms]:
        return
    # The rest of a crossfade: its time had come when the sound began there, or when it was asked for.
    since = [
        0 <= left_ms - asked.position_ms <= LATE_MS for asked in done.asked if first_frame <= asked.frames <= frame
    ]
    began_ms = next(one.sample for _, one in done.pieces if one.source == before.source) * 1000 / SAMPLE_RATE_HZ
    assert any(since) or 0 <= left_ms - began_ms <= LATE_MS, f"left at {left_ms} ms"


def check_undisturbed_joints(done: Run) -> None:
    """A sound during which nothing but a fade was asked for is left exactly where it should be; or soon, when that was
    passed already as it began, or as the fade was asked for."""
    for (_, before), (frame, piece) in itertools.pairwise(done.pieces):
        if piece.source == before.source:
            continue
        first_frame, first = next((number, one) for number, one in done.pieces if one.source == before.source)
        asked = [asked for asked in done.asked if first_frame < asked.frames <= frame]
        if any(asked.frames == first_frame and is_fade(asked) for asked in done.asked) or not all(map(is_fade, asked)):
            continue
        duration_ms = fade_durations_ms(done, first_frame, frame)[-1]
        end_ms = int(done.length_ms(before.source))
        since_ms = max([first.sample * 1000 / SAMPLE_RATE_HZ, *(one.position_ms for one in asked)])
        at_ms = fade_at_ms(done, before.source, piece.source, duration_ms)
        left = before.sample + before.samples
        if not duration_ms:
            assert left == done.samples(before.source)
        elif since_ms < at_ms - LATE_MS:
            assert left == at_ms * SAMPLE_RATE_HZ // 1000
        elif end_ms - since_ms > 2 * LATE_MS:
            assert 0 <= left * 1000 / SAMPLE_RATE_HZ - max(since_ms, at_ms) <= LATE_MS


def is_fade(asked: Asked) -> bool:
    return asked.step.what.startswith("fade")


def fade_at_ms(done: Run, source: int, next_source: int, duration_ms: int) -> int:
    """Where a track is left for the next one: at most half of either is faded over."""
    lengths_ms = [int(done.length_ms(one)) for one in (source, next_source)]
    return lengths_ms[0] - min(duration_ms, min(lengths_ms) // 2)


def fade_durations_ms(done: Run, first_frame: int, end_frame: int) -> list[int]:
    """The settings that were in force while these frames were heard."""
    durations_ms = [0]
    for asked in done.asked:
        if is_fade(asked) and asked.frames < first_frame:
            durations_ms = [asked.step.fade_ms]
        elif is_fade(asked) and asked.frames <= end_frame:
            durations_ms.append(asked.step.fade_ms)
    return durations_ms


def check_events(done: Run) -> None:
    """Each track that is heard has a start, with its first frame, and then an end, and no track is lost."""
    playing, ended = None, set()
    for event in done.events:
        if event["op"] == "TrackStart":
            assert playing is None
            playing = event["trackId"]
        elif event["op"] == "TrackEnd":
            assert playing in (None, event["trackId"])
            playing = None
            ended.add(event["trackId"])
    assert playing is None
    assert ended == set(done.wanted_ids)
    heard = [(frame, done.names[piece.source]) for frame, piece in done.pieces]
    assert set(done.starts) <= set(heard)
    others = [there for before, there in itertools.pairwise([(-1, ""), *heard]) if there[1] != before[1]]
    assert set(others) <= set(done.starts)


async def test_a_track_that_comes_too_late_for_its_crossfade_joins_plainly_whatever_changes_then() -> None:
    bench = SleepBench(TRACKS, "odd")
    listener = bench.listen()
    for what, then_s in (("fade", 12.34), ("enqueue", 0.1), ("volume", 0.1), ("fade", 8.0)):
        bench.ask(what, 8_000, "long")
        await bench.run(then_s)
    assert bench.joints(listener) == [(TRACKS["odd"].samples, 0)]


# What a sleeper says

REOPENED_MS = (OPENING_S + 2 * STEP_S) * 1000  # asked for in a step, done in the next


class Said(NamedTuple):
    op: str
    content: dict[str, Any]
    time_ms: int
    position_ms: int


async def what_is_said(
    names: list[str], steps: list[Step], *, sleeps: bool
) -> tuple[list[Said], list[tuple[str, str]]]:
    """The events of a player that all this is asked of, and its states between the steps."""
    bench = SleepBench(TRACKS, *names, sleeps=sleeps)
    leave, listener = None, MemoryListener()
    states = []
    try:
        for step in steps:
            heard_before = len(listener)
            if step.what == "listen" and leave is None:
                listener, heard_before = MemoryListener(), 0
                leave = bench.player.attach(listener)
            elif step.what == "leave" and leave is not None:
                leave()
                leave = None
            elif step.what == "overlay" and len(bench.player.status().overlays) < MAX_OVERLAYS:
                bench.player.add_overlays((bench.new_track("second"), OverlaySettings()))
            else:
                bench.ask(step.what, step.fade_ms if step.what.startswith("fade") else step.ms, step.name)
            await bench.run(step.then_s)
            if step.then_s > 0.1:  # otherwise what was asked for may begin with the next tick
                status = bench.player.status()
                states.append((status.state.value, status.track.id))
            if step.then_s > 1 and len(listener) > heard_before and leave is not None:
                require_place(bench, listener)
            pieces = [piece for content in bench.heard(listener) for piece in content.pieces]
            assert all(itertools.starmap(is_gapless, itertools.pairwise(pieces)))
        await bench.run(20)
    finally:
        await bench.player.delete()
    # A next track is opened for a skip only where the end of the current one is known, which it is for a sleeper alone.
    return [_said(event) for event in bench.events.events if event["op"] != "QueueDetails"], states


def _said(event: dict[str, Any]) -> Said:
    apart = ("time", "position", "from", "seq", "life", "playedMs")
    content = {name: value for name, value in event.items() if name not in apart}
    if event["op"] == "Seek":  # where it went was asked for; what it left is a position like others
        return Said("Seek", content | {"position": event["position"]}, event["time"], event["from"])
    return Said(event["op"], content, event["time"], event.get("position", 0))


def off_ms(one_ms: int, other_ms: int) -> float:
    """How far two positions are apart, of which the later one may be just before the end of a track and the earlier one
    just behind the beginning of the next, or of the same again."""
    first_ms, last_ms = sorted((one_ms, other_ms))
    left_ms = [abs(track.samples * 1000 / SAMPLE_RATE_HZ - last_ms) for track in TRACKS.values()]
    return min(last_ms - first_ms, first_ms + min(left_ms))


@pytest.mark.timeout(300)  # the longest of all by far: it plays minutes twice, 12 times over
@settings(max_examples=examples(12))
@given(
    NAMES,
    steps_of(
        "wait wait pause play skip enqueue first remove none track queue volume faster as-it-is fade fade-on-skip "
        "listen listen leave seek seek overlay",
        [0.02, 0.5, 3.0, 12.34, 30.0, 61.0],
        max_size=8,
    ),
)
@example(["broken"], [Step("wait", 0.5), Step("faster", 3.0), Step("seek", 0.02)])
@example(["broken"], [Step("wait", 0.5), Step("pause", 0.02), Step("play", 3.0)])
@example(["odd"], [Step("track", 3.0), Step("faster", 61.0)])
@example(["long"], [Step("wait", 3.0), Step("seek", 3.0, 8_000), Step("listen", 0.02), Step("volume", 3.0)])
@example(
    ["long"], [Step("wait", 3.0), Step("pause", 3.0), Step("seek", 3.0, 500), Step("play", 3.0), Step("listen", 3.0)]
)
@example(["long", "odd"], [Step("fade", 12.34, 8_000), Step("listen", 30.0)])
@example(
    ["long"], [Step("wait", 3.0), Step("pause", 3.0), Step("overlay", 3.0), Step("play", 12.34), Step("listen", 3.0)]
)
def test_the_events_of_a_sleeping_player_are_those_of_one_that_is_awake(names: list[str], steps: list[Step]) -> None:
    """Each one's ticks may lie anywhere within 20 ms, on the clock's grid of 5 ms, and elsewhere after each sleep. So
    where a request stops the sound, that is a frame earlier or later, and so it is where the sound begins again. Where
    it changes the speed, one that is awake does so some frames later. One that is awake does not keep its source open
    in a pause, and then stands still until it is open again. Between requests nothing is lost or won, however often the
    player falls asleep and wakes."""
    stops = sum(step.what in ("pause", "skip") for step in steps)
    changes = sum(step.what in ("faster", "as it is") for step in steps)
    pauses = sum(step.what == "pause" for step in steps)
    may_be_off_ms = FASTEST * ((FRAME_MS + 5) * (1 + stops + changes) + REOPENED_MS * pauses)
    asleep, states_asleep = asyncio.run(what_is_said(names, steps, sleeps=True))
    awake, states_awake = asyncio.run(what_is_said(names, steps, sleeps=False))
    assert states_asleep == states_awake
    # Apart, because one that comes every five seconds may fall just before or just after a request.
    for are_updates in (False, True):
        these = [said for said in asleep if (said.op == "PlayerUpdate") is are_updates]
        those = [said for said in awake if (said.op == "PlayerUpdate") is are_updates]
        assert [said.content for said in these] == [said.content for said in those]
        for one, other in zip(these, those, strict=True):
            assert abs(one.time_ms - other.time_ms) <= may_be_off_ms, (one, other)
            assert off_ms(one.position_ms, other.position_ms) <= may_be_off_ms, (one, other)

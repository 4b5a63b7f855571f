"""Whatever is asked of a player: its listener gets the tracks in order, sample for sample, and each goes over into the
next one where it should."""

import asyncio
import contextlib
import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.simulated_decoder import Piece, Track
from tests.support.sleep_bench import PLAIN_REQUESTS, SleepBench, seconds
from tonearm.core.crossfade import CrossfadeEdit
from tonearm.core.errors import NoPrevious
from tonearm.core.frame import FRAME_MS, SAMPLE_RATE_HZ
from tonearm.core.playback_requests import Requests

TRACKS = {
    "second": seconds(1),
    "short": seconds(4.5),
    "odd": Track(17 * SAMPLE_RATE_HZ + 123),
    "long": Track(41 * SAMPLE_RATE_HZ + 777),
    "missing": Track(0),
    "broken": seconds(22.22, breaks=True),
}
NAMES = st.sampled_from(sorted(TRACKS))
CUTS = ("seek", "skip", "replace", "previous")
LATE_MS = 200  # by which the rest of a crossfade may begin after what made it one


class Step(NamedTuple):
    """Something that a client does, and how long nothing is done after it."""

    what: str
    name: str
    position_ms: int
    fade_ms: int
    then_s: float


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["wait", "wait", "pause", "play", "enqueue", "enqueue", "fade", "fade on skip", "seek", *CUTS]),
        NAMES,
        st.sampled_from([0, 500, 3_000, 9_990, 15_500, 16_900, 38_000, 60_000]),
        st.sampled_from([0, 100, 2_000, 8_000, 12_000]),
        st.sampled_from([0.02, 0.1, 1.0, 3.0, 12.34]),
    ),
    max_size=10,
)


class Asked(NamedTuple):
    """A request, and how many frames the listener had by then."""

    step: Step
    frames: int
    position_ms: int
    plays: bool  # neither idle nor failed


@dataclass
class Run:
    """What came of it all. `pieces` are of the listener's frames, each with the frame's number from 0."""

    pieces: list[tuple[int, Piece]]
    names: dict[int, str]
    asked: list[Asked]
    events: list[dict[str, Any]]
    wanted_ids: list[str]
    left_ids: list[str]
    open_sources: int

    def length_ms(self, source: int) -> float:
        return self.samples(source) * 1000 / SAMPLE_RATE_HZ

    def samples(self, source: int) -> int:
        return TRACKS[self.names[source]].samples


def ask(bench: SleepBench, step: Step) -> list[str]:
    """Does a step. Returns the ids of the tracks that came with it."""
    player = bench.player
    match step.what:
        case what if what in PLAIN_REQUESTS:
            player.do(PLAIN_REQUESTS[what])
        case "enqueue" | "replace":
            track = bench.new_track(step.name)
            player.do(Requests.enqueue if step.what == "enqueue" else Requests.replace, track)
            return [track.id]
        case "previous":
            with contextlib.suppress(NoPrevious):
                player.do(Requests.previous)
        case "fade":
            player.do(Requests.change_crossfade, CrossfadeEdit(duration_ms=step.fade_ms))
        case "fade on skip":
            player.do(Requests.change_crossfade, CrossfadeEdit(duration_ms=step.fade_ms, on_skip=True))
        case "seek":
            player.seek(step.position_ms)
    return []


async def run(names: list[str], steps: list[Step]) -> Run:
    """Does the steps, then lets everything play to its end."""
    bench = SleepBench(TRACKS, *names)
    listener = bench.listen()
    player = bench.player
    asked = []
    wanted = [player.status().track.id, *(track.id for track in player.queue.tracks)]
    try:
        await bench.run(0.1)
        for step in steps:
            status = player.status()
            heard_before = len(listener)
            if step.what != "wait":
                asked.append(Asked(step, heard_before, status.position_ms, status.state in ("loading", "playing")))
            wanted += ask(bench, step)
            await bench.run(step.then_s)
            status = player.status()
            if status.state == "playing" and not status.paused and step.then_s > 1 and len(listener) > heard_before:
                frame = bench.heard(listener)[-1]
                end_ms = (frame.pieces[-1].sample + frame.pieces[-1].samples) * 1000 / SAMPLE_RATE_HZ
                assert abs(status.position_ms - end_ms) <= FRAME_MS
        for _ in range(200):
            if player.status().state in ("idle", "failed") and not player.queue.tracks:
                break
            player.do(Requests.play)
            await bench.run(3)
        left = [track.id for track in player.queue.tracks]
        pieces = [(number, piece) for number, content in enumerate(bench.heard(listener)) for piece in content.pieces]
        open_sources = len(player._engine._session._sources)
    finally:
        await bench.close()
    return Run(pieces, bench.pool.names, asked, bench.said, wanted, left, open_sources)


@settings(max_examples=examples(25))
@given(st.lists(NAMES, min_size=1, max_size=4), STEPS)
@example(["short"], [Step("wait", "", 0, 0, 12.34), Step("play", "", 0, 0, 0.02), Step("seek", "", 0, 0, 0.02)])
@example(["odd", "short"], [Step("fade", "", 0, 4_000, 3.0), Step("seek", "", 9_990, 0, 12.34)])
@example(["odd", "long"], [Step("fade", "", 0, 8_000, 3.0), Step("seek", "", 15_500, 0, 12.34)])
@example(["odd", "long"], [Step("wait", "", 0, 0, 12.34), Step("fade", "", 0, 8_000, 12.34)])
@example(["odd", "odd"], [Step("fade", "", 0, 100, 12.34), Step("seek", "", 16_900, 0, 0.02)])
@example(
    ["second"], [Step("wait", "", 0, 0, 1.02), Step("enqueue", "second", 0, 0, 0.02), Step("seek", "", 0, 0, 0.02)]
)
@example(["odd", "long", "odd"], [Step("fade on skip", "", 0, 8_000, 3.0), Step("skip", "", 0, 0, 1.0)])
def test_tracks_are_heard_in_order_and_go_over_into_each_other_where_they_should(
    names: list[str], steps: list[Step]
) -> None:
    done = asyncio.run(run(names, steps))
    for (before_frame, before), (frame, piece) in itertools.pairwise(done.pieces):
        if piece.source == before.source:
            assert piece.sample == before.sample + before.samples, "samples left out or doubled"
        else:
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
        seeks = [asked.step.position_ms for asked in done.asked if asked.step.what == "seek" and asked.frames <= frame]
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
    """Each track that was heard has a start and then an end, and no track is lost."""
    playing = None
    started, ended = [], []
    for event in done.events:
        if event["op"] == "TrackStart":
            assert playing is None
            playing = event["trackId"]
            started.append(event["track"]["info"]["title"])
        elif event["op"] == "TrackEnd":
            assert playing in (None, event["trackId"])
            playing = None
            ended.append(event["trackId"])
    assert playing is None
    assert set(ended) == set(done.wanted_ids)
    heard: list[str] = []
    for (before_frame, before), (frame, piece) in itertools.pairwise([(-1, Piece(0, 0, 0)), *done.pieces]):
        if piece.source == before.source:
            continue
        is_between_frames = before_frame < frame  # otherwise tracks join here, though it be soon after a cut
        cuts = [
            asked for asked in done.asked if is_between_frames and asked.frames == frame and asked.step.what in CUTS
        ]
        if before.source and done.names[before.source] == done.names[piece.source]:
            seeks = [asked for asked in cuts if is_seek_within(done, before.source, asked)]
            is_at_end = before.sample + before.samples == done.samples(before.source)
            if seeks and (is_at_end or len(seeks) < len(cuts)):
                return  # it cannot be seen whether it is the same track
            if seeks and not any(asked.frames == frame and is_play_again(asked) for asked in done.asked):
                continue
        heard.append(done.names[piece.source])
    assert started == heard


def is_play_again(asked: Asked) -> bool:
    """Whether a track that had ended, or failed, began once more."""
    return asked.step.what == "play" and not asked.plays


def is_seek_within(done: Run, source: int, asked: Asked) -> bool:
    """Whether the track of `source` went on elsewhere."""
    return asked.step.what == "seek" and asked.plays and asked.step.position_ms < int(done.length_ms(source))

"""Whatever is asked of it: a player that sleeps says what one says that stays awake, at the same time."""

import asyncio
import contextlib
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.simulated_decoder import Track
from tests.support.sinks import MemoryListener
from tests.support.sleep_bench import OPENING_S, PLAIN_REQUESTS, STEP_S, SleepBench, seconds
from tonearm.core.crossfade import CrossfadeEdit
from tonearm.core.errors import NotSeekable
from tonearm.core.filters import FilterChange, Timescale
from tonearm.core.frame import FRAME_MS, SAMPLE_RATE_HZ
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback_requests import Requests

TRACKS = {
    "short": seconds(2.5),
    "odd": Track(17 * 48_000 + 123),
    "long": Track(41 * 48_000 + 777),
    "longer": Track(53 * 48_000 + 1),
    "missing": Track(0),
    "broken": seconds(33.33, breaks=True),
}
NAMES = st.sampled_from(sorted(TRACKS))
FASTEST = 1.25
REOPENED_MS = (OPENING_S + 2 * STEP_S) * 1000  # asked for in a step, done in the next
PAUSE_S = st.sampled_from([0.02, 0.5, 3.0, 12.34, 30.0, 61.0])


class Step(NamedTuple):
    """Something that a client does, and how long nothing is done after it."""

    what: str
    name: str
    mode: LoopMode
    then_s: float


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(
            [
                *("wait", "wait", "pause", "play", "skip", "enqueue", "first", "remove", "loop", "filter", "speed"),
                *("crossfade", "listen", "leave", "seek"),
            ]
        ),
        NAMES,
        st.sampled_from(list(LoopMode)),
        PAUSE_S,
    ),
    max_size=8,
)


def _step(what: str, then_s: float) -> Step:
    return Step(what, "long", LoopMode.NONE, then_s)


class Said(NamedTuple):
    op: str
    content: dict[str, Any]
    time_ms: int
    position_ms: int


def ask(bench: SleepBench, step: Step) -> None:
    player = bench.player
    match step.what:
        case what if what in PLAIN_REQUESTS:
            player.do(PLAIN_REQUESTS[what])
        case "enqueue":
            player.do(Requests.enqueue, bench.new_track(step.name))
        case "first":
            player.do(Requests.enqueue, bench.new_track(step.name), index=0)
        case "remove" if player.queue.tracks:
            player.do(Requests.remove, player.queue.tracks[0].id)
        case "crossfade":
            edit = CrossfadeEdit(duration_ms=int(step.then_s * 50), on_skip=step.mode is LoopMode.NONE)
            player.do(Requests.change_crossfade, edit)
        case "loop":
            player.do(Requests.set_loop, step.mode)
        case "seek":
            with contextlib.suppress(NotSeekable):  # its source may be missing
                player.seek(round(step.then_s * 400))
        case "filter":
            player.do(Requests.change_filters, FilterChange(volume=step.then_s / 100))
        case "speed":
            timescale = Timescale(speed=FASTEST if step.then_s > 1 else 1.0)
            player.do(Requests.change_filters, FilterChange(effects={"timescale": timescale}))


async def what_is_said(
    names: list[str], steps: list[Step], *, sleeps: bool
) -> tuple[list[Said], list[tuple[str, str]]]:
    """The events of a player that all this is asked of, and its states between the steps."""
    bench = SleepBench(TRACKS, *names, sleeps=sleeps)
    leave = None
    states = []
    try:
        for step in steps:
            if step.what == "listen" and leave is None:
                leave = bench.player.attach(MemoryListener())
            elif step.what == "leave" and leave is not None:
                leave()
                leave = None
            else:
                ask(bench, step)
            await bench.run(step.then_s)
            if step.then_s > 0.1:  # otherwise what was asked for may begin with the next tick
                status = bench.player.status()
                states.append((status.state.value, status.track.id))
        await bench.run(20)
    finally:
        await bench.close()
    # A next track is opened for a skip only where the end of the current one is known, which it is for a sleeper alone.
    return [_said(event) for event in bench.said if event["op"] != "QueueDetails"], states


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
@given(st.lists(NAMES, min_size=1, max_size=4), STEPS)
@example(["broken"], [_step("wait", 0.5), _step("speed", 3.0), _step("seek", 0.02)])
@example(["broken"], [_step("wait", 0.5), _step("pause", 0.02), _step("play", 3.0)])
@example(["odd"], [Step("loop", "odd", LoopMode.TRACK, 3.0), _step("speed", 61.0)])
def test_the_events_of_a_sleeping_player_are_those_of_one_that_is_awake(names: list[str], steps: list[Step]) -> None:
    """Each one's ticks may lie anywhere within 20 ms, on the clock's grid of 5 ms, and elsewhere after each sleep. So
    where a request stops the sound, that is a frame earlier or later, and so it is where the sound begins again. Where
    it changes the speed, one that is awake does so some frames later. One that is awake does not keep its source open
    in a pause, and then stands still until it is open again. Between requests nothing is lost or won, however often the
    player falls asleep and wakes."""
    stops = sum(step.what in ("pause", "skip") for step in steps)
    changes = sum(step.what == "speed" for step in steps)
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

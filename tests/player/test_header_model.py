"""Whatever is asked of a player, and whichever process dies: the header of each frame says what is in its PCM, and all
samples of an overlay are heard, once and in order."""

import asyncio
from typing import NamedTuple

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.player.test_cuts import CLIP_SAMPLES, CUT, SHORT_FRAMES, STARTS, Bench, HeardFrame, samples_of
from tests.player.test_handing_over import SETTINGS
from tests.support.examples import examples
from tests.support.tracks import make_track
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.decoder.messages import FIRST_OVERLAY_SOURCE
from tonearm.worker.mixing.voices import GLIDE_SAMPLES

FRAME_US = 20_000
MOST_SOURCES = 60
PLACES_MS = (0, 20, 333, 1_990, 2_600, 2_960)
PLACES_US = [1000 * place_ms for place_ms in PLACES_MS]


class Step(NamedTuple):
    """What is asked for, with which place; for how many frames nothing is asked for after it, and whether the decoder
    gets to work before these."""

    what: str
    position_ms: int
    then_frames: int
    is_quick: bool


def steps_of(whats: str, max_size: int) -> st.SearchStrategy[list[Step]]:
    step = st.builds(
        Step,
        st.sampled_from(whats.split()),
        st.sampled_from(PLACES_MS),
        st.sampled_from([0, 1, 2, 7, 30, 120]),
        st.booleans(),
    )
    return st.lists(step, min_size=1, max_size=max_size)


async def ask(bench: Bench, step: Step) -> None:
    match step.what:
        case "overlay" if not bench.player.status().overlays:
            bench.player.add_overlays((make_track(f"overlay{len(bench.events.named('OverlayEnd'))}"), SETTINGS))
        case "death":
            bench.pool.lose()
        case what:
            bench.ask(what, (25_000, 50_000, 100_000)[step.position_ms % 3] if what == "volume" else step.position_ms)
    if step.is_quick:
        await bench.pump()
        bench.decode(2 * SHORT_FRAMES * FRAME_SAMPLES)
        await bench.pump()


async def heard(steps: list[Step]) -> tuple[list[HeardFrame], list[int]]:
    """The frames, and at which of them overlays began."""
    bench = Bench("a", "b", "c", "d", frames=SHORT_FRAMES)
    begun: list[int] = []

    def note() -> None:
        if bench.events.ops[-1] == "OverlayStart":
            begun.append(len(bench.listener))

    bench.events.on_send = note
    await bench.sound()
    for step in [*steps, Step("play", 0, 40, is_quick=True), Step("wait", 0, 120, is_quick=True)]:
        await ask(bench, step)
        for _ in range(step.then_frames):
            if step.what != "starve":
                bench.decode(2 * FRAME_SAMPLES)
            before = bench.player.status()
            await bench.ticks(1)
            assert not before.paused or bench.player.status().position_ms == before.position_ms
    assert not bench.player.status().overlays
    assert [event["reason"] for event in bench.events.named("OverlayEnd")] == ["finished"] * len(begun)
    return bench.frames(), begun


def source_of(frame: HeardFrame) -> int | None:
    """The source whose sound a frame has behind a glide, where its position says."""
    sample = round(frame.position_us * 48 / 1000)
    for source in range(1, MOST_SOURCES):
        if np.array_equal(frame.pcm[GLIDE_SAMPLES:], samples_of(source, sample, FRAME_SAMPLES)[GLIDE_SAMPLES:]):
            return source
    return None


def joins_at(frame: HeardFrame) -> tuple[int, int] | None:
    """Where in a frame a source begins, and which. Behind its beginning others may seem to begin."""
    joints: list[tuple[int, int]] = []
    for source in range(1, MOST_SOURCES):
        first = samples_of(source, 0, FRAME_SAMPLES)
        joints += [
            (offset, source)
            for offset in np.flatnonzero((frame.pcm[:-8] == first[0]).all(axis=1)).tolist()
            if np.array_equal(frame.pcm[offset:], first[: FRAME_SAMPLES - offset])
        ]
    return min(joints, default=None)


def check(frames: list[HeardFrame]) -> None:
    source: int | None = None
    position_us, offset = 0, 0
    for frame in frames:
        says = f"frame {frame.number}, position {frame.position_us} us, flags {frame.flags}"
        if frame.flags & CUT:
            source, offset = source_of(frame), 0
            assert source is not None, says
            assert frame.position_us in PLACES_US, says
        elif frame.flags & STARTS:
            assert frame.position_us == 0, says
            joint = joins_at(frame)
            assert joint is not None, says
            offset, source = joint
        else:
            assert abs(frame.position_us - position_us) <= 1, says
            is_over = not frame.pcm[GLIDE_SAMPLES:].any()
            assert is_over or ends(frame, source) or source_of(frame) == source, says
            offset = 0
        position_us = frame.position_us + FRAME_US - round(offset * 1000 / 48)


def ends(frame: HeardFrame, source: int | None) -> bool:
    """Whether the last samples of a track are in it, and silence behind them."""
    if source is None:
        return False
    sample = round(frame.position_us * 48 / 1000)
    last = samples_of(source, sample, SHORT_FRAMES * FRAME_SAMPLES + 77 - sample)
    whole = np.concatenate((last, np.zeros_like(frame.pcm)))[:FRAME_SAMPLES]
    return len(last) < FRAME_SAMPLES and np.array_equal(frame.pcm[GLIDE_SAMPLES:], whole[GLIDE_SAMPLES:])


@settings(max_examples=examples(6))
@example([Step("wait", 0, 120, is_quick=False)] * 6)
@example([Step("wait", 0, 130, is_quick=True), Step("death", 0, 0, is_quick=True), Step("skip", 0, 8, is_quick=True)])
@example([Step("seek", 333, 0, is_quick=False), Step("death", 0, 7, is_quick=True)])
@given(steps_of("wait seek seek skip previous replace pause play death death", max_size=12))
def test_the_header_says_what_is_in_the_frame(steps: list[Step]) -> None:
    check(asyncio.run(heard(steps))[0])


@settings(max_examples=examples(22))
@given(
    steps_of(
        "wait wait overlay overlay overlay pause play skip seek volume volume death stop enqueue starve starve replace",
        max_size=40,
    )
)
def test_all_of_an_overlay_is_heard(steps: list[Step]) -> None:
    frames, begun = asyncio.run(heard([Step("overlay", 0, 0, is_quick=False), *steps]))
    rest = np.concatenate([frame.pcm for frame in frames])[:, 0].copy()
    for number, frame in enumerate(begun):
        part = slice(frame * FRAME_SAMPLES, frame * FRAME_SAMPLES + CLIP_SAMPLES)
        expected = samples_of(FIRST_OVERLAY_SOURCE + number, 0, CLIP_SAMPLES)[:, 0]
        assert np.array_equal(rest[part], expected), f"overlay {number} at frame {frame}"
        rest[part] = 0
    assert begun
    assert not rest.any()


async def test_an_update_that_falls_due_in_a_frame_of_overlays_alone_comes_with_it() -> None:
    bench = Bench("a", frames=SHORT_FRAMES)
    await bench.sound(100)
    await bench.ticks(100)
    for number in range(5):  # the track's source gives nothing more
        bench.player.add_overlays((make_track(f"overlay{number}"), SETTINGS))
        await bench.pump()
        await bench.ticks(37)
    assert len(bench.listener) in range(251, 300)
    assert bench.events.ops.count("PlayerUpdate") == 3  # playing, loading, and the one after five seconds

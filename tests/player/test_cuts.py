"""What is heard, and said in the headers, around a seek, skip, replace or stop: with a real render session."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.opus_listening import decoded
from tests.support.rendering_bench import RenderingBench
from tests.support.sinks import MemoryListener
from tonearm.core.crossfade import CrossfadeEdit
from tonearm.core.filters import Echo, FilterChange, Timescale
from tonearm.core.frame import FRAME_SAMPLES, Output
from tonearm.core.playback_requests import Requests
from tonearm.decoder.messages import FIRST_OVERLAY_SOURCE
from tonearm.protocol.framing import HEADER, HEADER_BYTES, FrameFlag, Framing, payload_of
from tonearm.worker.mixing.voices import GLIDE_SAMPLES

LONG_FRAMES = 800  # no other track is opened before the last ten seconds
SHORT_FRAMES = 150
CLIP_SAMPLES = 37 * FRAME_SAMPLES + 411
STARTS, CUT = FrameFlag.TRACK_STARTS, FrameFlag.DISCONTINUITY

Pcm = NDArray[np.int16]


def samples_of(source: int, first: int = 0, count: int = LONG_FRAMES * FRAME_SAMPLES + 77) -> Pcm:
    """The sound of a source: loud, and nowhere like another one, or like itself elsewhere. Overlays are on the left,
    tracks on the right."""
    index = np.arange(first, first + count, dtype=np.int64)
    sound = np.zeros((count, 2), dtype="<i2")
    sound[:, int(source < FIRST_OVERLAY_SOURCE)] = (index * 7919 + source * 104_729) % 20_011 - 10_000
    return sound


class HeardFrame(NamedTuple):
    number: int
    position_us: int
    flags: int
    pcm: Pcm


class Bench(RenderingBench):
    """Its first track sounds, and somebody listens to PCM with headers."""

    def __init__(self, *names: str, frames: int = LONG_FRAMES) -> None:
        lengths = [frames * FRAME_SAMPLES + 77, CLIP_SAMPLES]
        super().__init__(
            *names,
            pcm_of=lambda source: samples_of(source, 0, lengths[source >= FIRST_OVERLAY_SOURCE]).tobytes(),
        )
        self.listener = MemoryListener(Framing.WEBSOCKET_WITH_HEADER)

    async def sound(self, decoded_frames: int = 60) -> None:
        self.listen()
        await self.pump()
        self.decode(decoded_frames * FRAME_SAMPLES)
        await self.ticks(10)
        assert self.player.status().state == "playing"

    def frames(self, first: int = 0) -> list[HeardFrame]:
        found = []
        for message in self.listener.messages[first:]:
            header, pcm = message[4 : 4 + HEADER_BYTES], message[4 + HEADER_BYTES :]
            _, flags, _, number, position_us = HEADER.unpack(header)
            found.append(HeardFrame(number, position_us, flags, np.frombuffer(pcm, dtype="<i2").reshape(-1, 2)))
        return found

    async def hear(self, frames: int) -> list[HeardFrame]:
        """What is heard in so many ticks."""
        before = len(self.listener)
        await self.ticks(frames)
        return self.frames(before)

    @property
    def says(self) -> tuple[str, bool]:
        status = self.player.status()
        return status.state, status.paused


CUTS = ("seek", "skip", "replace", "previous")


def cut(bench: Bench, how: str) -> int:
    """Returns the sample of its file at which the new sound begins."""
    if how == "previous":
        bench.ask("skip")
    bench.ask(how, 2_000)
    return 2_000 * 48 if how == "seek" else 0


def require_new_sound(bench: Bench, heard: list[HeardFrame], sample: int) -> None:
    """The current source from `sample` on, and nothing before it: faded in where that is in the middle."""
    source = bench.plan.after
    pcm = np.concatenate([frame.pcm for frame in heard])
    expected = samples_of(source, sample, len(pcm))
    rise = GLIDE_SAMPLES if sample else 0
    assert np.array_equal(pcm[rise:], expected[rise:])
    assert (np.abs(pcm[:rise]) <= np.abs(expected[:rise]) + 1).all()
    assert not rise or (np.abs(pcm[: rise // 8]) < 500).all()


# The header


@pytest.mark.parametrize("how", CUTS)
async def test_the_end_of_the_old_sound_has_its_own_position_and_the_new_place_the_flags(how: str) -> None:
    bench = Bench("a", "b")
    await bench.sound()
    before = bench.frames()[-1]
    heard = len(bench.listener)
    sample = cut(bench, how)
    await bench.pump()
    await bench.ticks(3)  # the end of the old sound, and then nothing is there
    assert (bench.says, bench.player.status().position_ms) == (("loading", False), sample // 48)
    bench.decode(50 * FRAME_SAMPLES)
    await bench.ticks(3)
    tail, first, *more = bench.frames(heard)
    position_ms = sample // 48 + 20 * (len(more) + 1)
    assert (bench.says, bench.player.status().position_ms) == (("playing", False), position_ms)
    assert (tail.position_us, tail.flags) == (before.position_us + 20_000, 0)
    assert np.abs(tail.pcm[:GLIDE_SAMPLES]).max() > 1000
    assert (first.position_us, first.flags) == (sample * 1000 // 48, CUT if how == "seek" else STARTS | CUT)
    assert [frame.flags for frame in more] == [0] * len(more)
    assert [frame.number for frame in (before, tail, first, *more)] == [
        before.number + step for step in range(len(more) + 3)
    ]
    require_new_sound(bench, [first, *more], sample)


# During a pause


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize("order", ["paused", "just resumed", "paused after it", "run dry"])
async def test_what_is_cut_while_nothing_sounds_is_not_heard_again_and_the_player_plays_when_the_new_is_ready(
    how: str, order: str
) -> None:
    bench = Bench("a", "b")
    await bench.sound()
    if order in ("paused", "just resumed"):
        bench.player.do(Requests.pause)
        await bench.ticks(3)
    if order == "just resumed":
        bench.player.do(Requests.play)
    if order == "run dry":
        await bench.ticks(60)
    assert bench.says == ("loading" if order == "run dry" else "playing", order == "paused")
    heard = len(bench.listener)
    sample = cut(bench, how)
    if order == "paused after it":
        await bench.pump()
        bench.player.do(Requests.pause)
    is_paused = order.startswith("paused")
    for frames, state in ((0, "loading"), (9, "loading"), (41, "playing" if is_paused else "loading")):
        bench.decode(frames * FRAME_SAMPLES)
        await bench.pump()
        update = bench.events.named("PlayerUpdate")[-1]
        assert bench.says == (update["state"], update["paused"]) == (state, is_paused)
    assert len(bench.listener) == heard
    assert len(bench.events.named("TrackStart")) == 1
    bench.player.do(Requests.play)
    heard_then = await bench.hear(8)
    assert bench.says == ("playing", False)
    assert len(bench.events.named("TrackStart")) == 1 + (how != "seek")
    assert len(heard_then) == 8  # from the first tick on
    assert heard_then[0].flags == (CUT if how == "seek" else STARTS | CUT)
    require_new_sound(bench, heard_then, sample)


@pytest.mark.parametrize("how", ["seek", "skip"])
@pytest.mark.parametrize("later", [False, True], ids=["listens all along", "comes during the pause"])
@pytest.mark.parametrize("frames", [SHORT_FRAMES, LONG_FRAMES], ids=["is open", "is not open"])
async def test_nothing_brings_back_what_was_cut_during_a_pause(how: str, later: bool, frames: int) -> None:
    """Neither filters nor a crossfade do; what comes then is silent here. A decoder of Opus adds the end of the packet
    before the pause, 2.5 ms of it."""
    bench = Bench("a", "b", frames=frames)
    bench.player.do(Requests.change_filters, FilterChange(gains=((0, 24.0),), effects={"echo": Echo()}))
    bench.player.do(Requests.change_crossfade, CrossfadeEdit(duration_ms=1000, on_skip=True))
    opus = MemoryListener(Framing.WEBSOCKET, output=Output("opus", 128_000))
    if not later:
        bench.player.attach(opus)
    sound_of = bench.pool.pcm_of
    bench.pool.pcm_of = lambda source: sound_of(source) if source == 1 else bytes(len(sound_of(source)))
    await bench.sound()
    bench.player.do(Requests.pause)
    cut(bench, how)
    await bench.pump()
    if later:
        bench.player.attach(opus)
    bench.decode(50 * FRAME_SAMPLES)
    await bench.pump()
    before = len(opus)
    bench.player.do(Requests.play)
    heard = await bench.hear(30)
    assert len(heard) == 30
    assert not any(frame.pcm.any() for frame in heard)
    sound = decoded([payload_of(message) for message in opus.messages])[before * FRAME_SAMPLES :]
    assert len(sound) >= 30 * FRAME_SAMPLES
    assert np.abs(sound[120:]).max() <= 5


# The end


@pytest.mark.parametrize("speed", [1.0, 2.0, 0.7])
async def test_the_silence_that_fills_the_last_frame_is_not_counted_as_played(speed: float) -> None:
    bench = Bench("a", frames=50)
    bench.player.do(Requests.change_filters, FilterChange(effects={"timescale": Timescale(speed=speed)}))
    await bench.sound()
    await bench.ticks(30)
    bench.player.do(Requests.change_filters, FilterChange(volume=0.5))  # what is left is rendered again, its end too
    await bench.ticks(60)
    (end,) = bench.events.named("TrackEnd")
    assert (end["reason"], end["position"]) == ("finished", pytest.approx(1001, abs=0 if speed == 1.0 else 1))
    (idle,) = [event for event in bench.events.named("PlayerUpdate") if event["state"] == "idle"]
    assert end["playedMs"] == idle["position"] == bench.player.status().position_ms == end["position"]

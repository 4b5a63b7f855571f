"""Whoever listens to a player, in whatever form and from when on: what he hears is one run of the player's sound."""

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

import av
import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.examples import examples
from tests.support.opus_listening import decoded
from tests.support.pcm import channels
from tests.support.rendering_bench import RenderingBench
from tests.support.sinks import MemoryListener
from tonearm.core.frame import (
    FRAME_MS,
    FRAME_SAMPLES,
    MP3_DELAY_SAMPLES,
    MP3_FRAME_SAMPLES,
    PCM,
    SAMPLE_RATE_HZ,
    SILENT_FRAME,
    SILENT_PACKET,
    Output,
    mp3_output,
)
from tonearm.decoder.session.orders import GRANT_STEP_FRAMES
from tonearm.player.clients.broadcast import silent_mp3_frame

TRACK_S = 25
AHEAD_FRAMES = 60  # that are decoded
FORMS: Final = {"wav": PCM, "ogg": Output("opus"), "low ogg": Output("opus", 48_000), "mp3": mp3_output(128_000)}
LAG_FRAMES = 30
SETTLED_FRAMES = 52  # so long a stream waits at most for what it begins with


@lru_cache
def sound(source: int) -> bytes:
    """Noise below 3 kHz: nowhere the same twice, and kept by encoders."""
    random = np.random.default_rng(source)
    mono = np.convolve(random.normal(size=TRACK_S * SAMPLE_RATE_HZ + 77), np.hanning(16), "same")
    return np.repeat((mono / np.abs(mono).max() * 25_000).astype("<i2"), 2).tobytes()


class Step(NamedTuple):
    """What happens, to whom; for how many frames nothing else does then, and whether the decoder gets to work before
    these."""

    what: str
    form: str = ""
    burst_ms: int = 2_000
    then_frames: int = 0
    is_quick: bool = True


class Ear:
    """A listener, and what the player had sounded when it came."""

    def __init__(self, form: str, burst_ms: int, tick: int, sounded: int) -> None:
        self.form = form
        self.sink = MemoryListener(output=FORMS[form], wants_silence=True, burst_ms=burst_ms, max_latency_ms=10_000)
        self.came_at, self.sounded = tick, sounded
        self.late_ms = 0.0  # by which its form is behind
        self.leave: Callable[[], None] = lambda: None
        self.ends_at = 0

    @property
    def message_ms(self) -> int:
        return 24 if self.form == "mp3" else FRAME_MS

    @property
    def heard_ms(self) -> int:
        return self.message_ms * (len(self.sink) - (self.sink.messages[:1] == [SILENT_PACKET]))

    def samples(self) -> NDArray[np.float64]:
        """What it heard but for the silence: that is in packets of its own."""
        match self.form:
            case "wav":
                return channels(b"".join(m for m in self.sink.messages if m != SILENT_FRAME)).astype(float)[:, 0]
            case "mp3":
                frames = [m for m in self.sink.messages if m != silent_mp3_frame(128_000)]
                return _mp3_decoded(frames) if frames else np.empty(0)
            case _:
                packets = [m for m in self.sink.messages if m != SILENT_PACKET]
                return decoded(packets)[:, 0] if packets else np.empty(0)


def _mp3_decoded(frames: list[bytes]) -> NDArray[np.float64]:
    codec = av.CodecContext.create("mp3float", "r")
    return np.concatenate(
        [block.to_ndarray()[0] * 32_768.0 for frame in frames for block in codec.decode(av.Packet(frame))]  # type: ignore[attr-defined]
    )


class Bench(RenderingBench):
    """One who hears everything, and the others. For so many ticks nothing is decoded (`starved`), or nothing of what
    was sent is encoded (`lagging`)."""

    def __init__(self) -> None:
        super().__init__(*"abcdefghijkl", pcm_of=sound)
        self.ears: list[Ear] = []
        self.there: list[Ear] = []
        self.tick_count = 0
        self.deaths, self.cut_at = 0, 0
        self.starved = self.lagging = 0
        self.decoded_to = 0

    def come(self, form: str, burst_ms: int) -> None:
        ear = Ear(form, burst_ms, self.tick_count, len(self.listener))
        ear.leave = self.player.attach(ear.sink)
        if form == "mp3":
            late_frames = GRANT_STEP_FRAMES + (LAG_FRAMES if self.pool.holds_encoded else 0)
            ear.late_ms = late_frames * FRAME_MS + (MP3_DELAY_SAMPLES + MP3_FRAME_SAMPLES) / 48
        self.ears.append(ear)
        self.there.append(ear)

    async def pass_frames(self, count: int) -> None:
        for _ in range(count):
            self.tick()
            self.tick_count += 1
            for ear in self.there:
                ear.ends_at = len(self.listener)
                passed_ms = (self.tick_count - ear.came_at) * FRAME_MS
                ahead_ms = ear.heard_ms - passed_ms - ear.message_ms - ear.late_ms
                assert ahead_ms <= ear.sink.burst_ms, f"{ear.form} is ahead of time"
            self.starved, self.lagging = max(0, self.starved - 1), max(0, self.lagging - 1)
            self.pool.holds_encoded = self.lagging > 0
            self.pool.tell_encoded()
            if not self.starved:
                wanted = self.tick_count + AHEAD_FRAMES
                self.decode((wanted - self.decoded_to) * FRAME_SAMPLES)
                self.decoded_to = wanted
            await self.pump()


async def do(bench: Bench, step: Step) -> None:
    match step.what:
        case "come":
            bench.come(step.form, step.burst_ms)
        case "go" if bench.there:
            bench.there.pop(0).leave()
        case "starve":
            bench.starved = 80
        case "lag":
            bench.lagging = LAG_FRAMES
        case "death" if bench.tick_count > bench.cut_at + LAG_FRAMES:  # before, what is not encoded is nowhere any more
            bench.deaths += 1
            bench.pool.lose()
            await bench.pump()
            bench.starved = bench.lagging = bench.decoded_to = 0
            await bench.pass_frames(40)  # what was not encoded is rendered once more
        case "pause" | "play" | "skip" | "seek":
            bench.cut_at = bench.tick_count if step.what in ("skip", "seek") else bench.cut_at
            bench.ask(step.what, step.burst_ms + 333)
    if step.is_quick:
        await bench.pump()


def one_run(ear: Ear, all_sound: NDArray[np.float64], deaths: int) -> None:
    heard = ear.samples()
    if len(heard) < 12 * FRAME_SAMPLES:
        return
    says = f"{ear.form}, burst {ear.sink.burst_ms} ms, came when {ear.sounded} frames had sounded: "
    seams = deaths if ear.form == "mp3" else 0
    for begins in range(3 * FRAME_SAMPLES, (4 + 9 * seams) * FRAME_SAMPLES, 9 * FRAME_SAMPLES):  # decoders swing in
        at = place_of(heard[begins : begins + 8 * FRAME_SAMPLES], all_sound)
        if at is not None:
            break
    assert at is not None, says + "begins with what nobody else heard"
    offset, start = at - begins, begins
    while (end := start + FRAME_SAMPLES) <= min(len(heard), len(all_sound) - offset):
        part = heard[start:end]
        there = all_sound[offset + start : offset + end]
        if not is_cut_off(there) and alike(part, there) < 0.6:
            frame = f"frame {(offset + start) / FRAME_SAMPLES:.2f}"
            assert seams, says + f"{frame} is not there; where it should be, is {place_of(part, all_sound)}"
            seams -= 1
            start, offset = behind_seam(heard, start, all_sound, offset)
        start += FRAME_SAMPLES
    first_frame = (offset + begins) / FRAME_SAMPLES - 3
    assert first_frame <= ear.sounded + SETTLED_FRAMES, says + f"begins only with frame {first_frame}"
    end_frame = (offset + len(heard)) / FRAME_SAMPLES
    kept_frames = 12 + (MP3_DELAY_SAMPLES + MP3_FRAME_SAMPLES) / FRAME_SAMPLES if ear.form == "mp3" else 2
    assert end_frame >= ear.ends_at - kept_frames, says + f"ends with frame {end_frame} of {ear.ends_at}"


def behind_seam(heard: NDArray[np.float64], start: int, all_sound: NDArray[np.float64], offset: int) -> tuple[int, int]:
    """Where what is heard goes on after an encoder was lost, and the offset there: no more is lost than it held."""
    size = 2 * FRAME_SAMPLES
    for at in range(start, min(start + 6 * FRAME_SAMPLES, len(heard) - size), FRAME_SAMPLES):
        part, nearby = heard[at : at + size], all_sound[offset + at : offset + at + size + MP3_DELAY_SAMPLES]
        moved = place_of(part, nearby)
        if moved is not None and alike(part, nearby[moved : moved + size]) > 0.9:
            return at, offset + moved
    assert len(heard) - start < 8 * FRAME_SAMPLES, "more is lost than the encoder held"
    return len(heard), offset


def is_cut_off(there: NDArray[np.float64]) -> bool:
    """Whether a sound ends in it, over 5 ms; of such a frame a burst may have more."""
    sounding = np.concatenate(([-1], np.flatnonzero(there), [len(there)]))
    return bool((np.diff(sounding) > FRAME_SAMPLES // 8).any())


def alike(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """1.0 for the same sound, 0 for any other."""
    power = np.sqrt((one**2).sum() * (other**2).sum())
    return float((one * other).sum() / power) if power else float(not one.any() and not other.any())


def place_of(part: NDArray[np.float64], whole: NDArray[np.float64]) -> int | None:
    """From which sample on `whole` sounds like `part`."""
    size = 1 << (len(whole) + len(part)).bit_length()
    found = np.fft.irfft(np.fft.rfft(whole, size) * np.conj(np.fft.rfft(part, size)), size)[
        : len(whole) - len(part) + 1
    ]
    at = int(found.argmax())
    return at if alike(part, whole[at : at + len(part)]) > 0.7 else None


async def hear(steps: list[Step]) -> None:
    bench = Bench()
    bench.listen()
    for step in steps:
        await do(bench, step)
        await bench.pass_frames(step.then_frames)
    all_sound = channels(bench.listener.pcm).astype(float)[:, 0]
    for ear in bench.ears:
        one_run(ear, all_sound, bench.deaths)


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(
            ["wait", "come", "come", "come", "come", "go", "pause", "play", "skip", "seek", "starve", "lag", "death"]
        ),
        st.sampled_from(sorted(FORMS)),
        st.sampled_from([0, 200, 2_000, 5_000]),
        st.sampled_from([0, 0, 0, 1, 2, 7, 30, 120]),
        st.booleans(),
    ),
    min_size=1,
    max_size=14,
)
TOGETHER = [*(Step("come", form) for form in ("ogg", "mp3", "mp3", "ogg")), Step("come", "wav", 0)]


@settings(max_examples=examples(25))
@given(STEPS)
@example([Step("wait", then_frames=150), *TOGETHER, Step("wait", then_frames=100)])
@example([*TOGETHER, Step("wait", then_frames=100)])
@example([Step("wait", then_frames=30), Step("come", "mp3", then_frames=40, is_quick=False)])
@example([Step("come", "mp3", 5_000, 1, is_quick=False), Step("come", "mp3", 0, 120), Step("death", then_frames=30)])
@example([Step("come", "mp3", 0, 120), Step("lag", then_frames=29), Step("death", then_frames=30)])
def test_what_each_hears_is_one_run_of_the_players_sound(steps: list[Step]) -> None:
    asyncio.run(hear([*steps, Step("play", then_frames=40)]))

"""A player with overlays, through everything at random: the overlay's samples are all heard, once and in order."""

import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.rendering_bench import RenderingBench
from tests.support.sinks import MemoryListener
from tests.support.tracks import make_track
from tonearm.core.events import EventMessage
from tonearm.core.filters import FilterChange, Limiter
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.core.overlays import OverlaySettings
from tonearm.core.playback_requests import Requests
from tonearm.decoder.messages import FIRST_OVERLAY_SOURCE
from tonearm.protocol.event_rendering import event_text

CLIP_SAMPLES = 37 * FRAME_SAMPLES + 411
TRACK_SAMPLES = 150 * FRAME_SAMPLES + 77
SETTINGS = OverlaySettings(duck_db=-20.0, fade_ms=40)


@cache
def pcm_of(source: int) -> bytes:
    """Overlays are on the left, tracks on the right."""
    is_overlay = source >= FIRST_OVERLAY_SOURCE
    samples = np.zeros((CLIP_SAMPLES if is_overlay else TRACK_SAMPLES, 2), dtype="<i2")
    wave = (np.arange(len(samples)) * 7919 + source) % 20_011 + 1
    samples[:, 0 if is_overlay else 1] = wave
    return samples.tobytes()


def clip(source: int) -> NDArray[np.int16]:
    return np.frombuffer(pcm_of(source), dtype="<i2").reshape(-1, 2)[:, 0]


def left(listener: MemoryListener) -> NDArray[np.int16]:
    return np.frombuffer(listener.pcm, dtype="<i2").reshape(-1, 2)[:, 0]


class Trial:
    """One player, at most one overlay at a time, and where each began among the frames that were heard."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bench = RenderingBench("a", "b", "c", pcm_of=pcm_of)
        self.added = 0
        self.begun: dict[int, int] = {}  # by overlay's number the first frame with it
        self.finished = 0
        player, bench = self.bench.player, self.bench
        volumes = [FilterChange(volume=volume) for volume in (0.5, 1.0, 2.0)]
        # By name: how often, and what.
        self.orders: dict[str, tuple[int, Callable[[], object]]] = {
            "tick": (30, lambda: None),
            "pause": (3, lambda: player.do(Requests.pause)),
            "play": (4, lambda: player.do(Requests.play)),
            "skip": (2, lambda: player.do(Requests.skip)),
            "seek": (2, self.seek),
            "volume": (4, lambda: player.do(Requests.change_filters, self.random.choice(volumes))),
            "add": (4, self.add),
            "decode": (12, lambda: bench.decode(self.random.choice([500, 5_000, 50_000]))),
            "die": (1, bench.pool.lose),
            "stop": (1, lambda: player.do(Requests.stop)),
            "enqueue": (2, lambda: player.do(Requests.enqueue, make_track("more"))),
        }
        tell = self.bench.events.send

        def send(message: EventMessage) -> None:
            self.note(json.loads(message.text(event_text)))
            tell(message)

        self.bench.events.send = send  # type: ignore[method-assign]

    async def begin(self) -> None:
        self.bench.player.do(Requests.change_filters, FilterChange(effects={"limiter": Limiter(enabled=False)}))
        self.bench.listen()
        await self.bench.pump()
        self.bench.decode(30_000)

    async def step(self) -> None:
        what = self.random.choices([*self.orders], [weight for weight, _ in self.orders.values()])[0]
        if what == "tick":
            await self.ticks(self.random.randint(1, 6))
        else:
            self.orders[what][1]()
        if self.random.random() < 0.7:
            await self.bench.pump()

    def seek(self) -> None:
        if self.bench.player.status().track.is_known:
            self.bench.player.seek(self.random.randint(0, 2_500))

    def add(self) -> None:
        if not self.bench.player.status().overlays:
            self.bench.player.add_overlays((make_track(f"overlay{self.added}"), SETTINGS))
            self.added += 1

    async def ticks(self, frames: int) -> None:
        for _ in range(frames):
            position, is_paused = self.bench.player.status().position_ms, self.bench.player.status().paused
            self.bench.tick()
            assert not is_paused or self.bench.player.status().position_ms == position
            await self.bench.pump()

    def note(self, event: dict[str, Any]) -> None:
        if event["op"] == "OverlayStart":
            self.begun[len(self.begun)] = len(self.bench.listener)
        if event["op"] == "OverlayEnd":
            assert event["reason"] == "finished", event
            self.finished += 1

    def check(self) -> None:
        heard = left(self.bench.listener)
        assert len(self.begun) == self.finished == self.added
        rest = heard.copy()
        for number, frame in self.begun.items():
            expected = clip(FIRST_OVERLAY_SOURCE + number)
            part = slice(frame * FRAME_SAMPLES, frame * FRAME_SAMPLES + CLIP_SAMPLES)
            assert np.array_equal(heard[part], expected), f"overlay {number} at frame {frame}"
            rest[part] = 0
        assert not rest.any()


@pytest.mark.parametrize("seed", range(22))
async def test_whatever_the_player_does_all_of_an_overlay_is_heard(seed: int) -> None:
    trial = Trial(seed)
    await trial.begin()
    trial.add()
    for _ in range(80):
        await trial.step()
    for _ in range(60):
        if not trial.bench.player.status().overlays:
            break
        await trial.ticks(5)
    trial.check()
    await trial.bench.player.delete()


async def test_an_update_that_falls_due_in_a_frame_of_overlays_alone_comes_with_it() -> None:
    bench = RenderingBench("a", pcm_of=pcm_of)
    bench.listen()
    await bench.pump()
    bench.decode(100 * FRAME_SAMPLES)
    await bench.ticks(110)
    for number in range(5):  # the track's source gives nothing more
        bench.player.add_overlays((make_track(f"overlay{number}"), SETTINGS))
        await bench.pump()
        await bench.ticks(37)
    assert len(bench.listener) in range(251, 300)
    assert bench.events.ops.count("PlayerUpdate") == 3  # playing, loading, and the one after five seconds

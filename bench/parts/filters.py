"""The cost of each filter and of overlays: the CPU time of a render session for each frame, in this process and without
decoding or sockets.
"""

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np

from bench.plan import Run
from tonearm.core.filters import (
    BAND_COUNT,
    ChannelMix,
    Compressor,
    Distortion,
    Echo,
    Effects,
    Filters,
    HighPass,
    Karaoke,
    Limiter,
    LowPass,
    Normalization,
    Rotation,
    Timescale,
    Tremolo,
    Vibrato,
)
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.decoder.messages import FIRST_OVERLAY_SOURCE, GRANT_FRAMES, Grant, OpenSession, OverlayOrder, Plan
from tonearm.worker.filters.normalization import SourceLoudness
from tonearm.worker.rendering.block_packets import BLOCK_FRAMES
from tonearm.worker.rendering.render_session import RenderSession
from tonearm.worker.sources.pcm_store import PcmStore

FRAMES: Final = 500
REPEATS: Final = 5
_BANDS: Final = (6.0, -6.0, 6.0, -6.0, 6.0)
# Off, so that what is measured is the filter alone: `auto` would limit beside it.
_NO_LIMITER: Final = None

SETTINGS: Final[Mapping[str, Filters]] = {
    "flat": Filters(),
    "volume": Filters(volume=0.5),
    "equalizer, 5 bands": Filters(gains_db=(*_BANDS, *(0.0,) * (BAND_COUNT - len(_BANDS)))),
    "equalizer, 15 bands": Filters(gains_db=(3.0,) * BAND_COUNT),
    "timescale, speed 1.25": Filters(effects=Effects(timescale=Timescale(speed=1.25))),
    "timescale, pitch 1.25": Filters(effects=Effects(timescale=Timescale(pitch=1.25))),
    "timescale, rate 1.25": Filters(effects=Effects(timescale=Timescale(rate=1.25))),
    "karaoke": Filters(effects=Effects(karaoke=Karaoke())),
    "lowPass, smoothing": Filters(effects=Effects(low_pass=LowPass())),
    "lowPass, frequencyHz": Filters(effects=Effects(low_pass=LowPass(frequency_hz=1000.0))),
    "highPass": Filters(effects=Effects(high_pass=HighPass())),
    "channelMix": Filters(effects=Effects(channel_mix=ChannelMix(0.5, 0.5, 0.5, 0.5))),
    "tremolo": Filters(effects=Effects(tremolo=Tremolo())),
    "vibrato": Filters(effects=Effects(vibrato=Vibrato())),
    "rotation": Filters(effects=Effects(rotation=Rotation(0.2))),
    "distortion": Filters(effects=Effects(distortion=Distortion())),
    "echo": Filters(effects=Effects(echo=Echo())),
    "compressor": Filters(effects=Effects(compressor=Compressor(), limiter=_NO_LIMITER)),
    "normalization, measuring": Filters(effects=Effects(normalization=Normalization(), limiter=_NO_LIMITER)),
    "limiter, nothing to do": Filters(volume=0.1, effects=Effects(limiter=Limiter(enabled=True))),
    "limiter, limiting": Filters(volume=3.0, effects=Effects(limiter=Limiter(enabled=True))),
}
# By name: the filters, and the volumes of the overlays that sound. The limiter has nothing to do; to know that of the
# louder one it has to look at the samples.
OVERLAYS: Final[Mapping[str, tuple[Filters, tuple[float, ...]]]] = {
    "overlay": (Filters(), (0.1,)),
    "overlay, louder": (Filters(), (0.4,)),
    "overlay, without limiter": (Filters(effects=Effects(limiter=_NO_LIMITER)), (0.1,)),
    "overlay, limiter has nothing to do": (Filters(volume=0.1), (0.1,)),
    "overlays, eight, without limiter": (Filters(effects=Effects(limiter=_NO_LIMITER)), (0.1,) * 8),
}


class _Noise:
    """A source that is decoded already: enough noise for the fastest timescale."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        samples = random.integers(-12_000, 12_000, (FRAME_SAMPLES * FRAMES * 2, 2)).astype("<i2")
        self.store = PcmStore(0)
        self.store.append(samples.tobytes())
        self.store.finish(is_interrupted=False)
        self.loudness = SourceLoudness()
        self.has_failed = False


async def filters(run: Run) -> None:
    source = await asyncio.to_thread(_Noise)
    for _ in range(REPEATS):
        for name, setting in SETTINGS.items():
            measure = partial(asyncio.to_thread, us_a_frame, source, setting)
            cost, ticker_p99_ms = await run.ticker.quiet(measure)
            run.figures.add(f"filters/{name}/us_a_frame", cost, ticker_p99_ms)
        for name, (setting, volumes) in OVERLAYS.items():
            measure = partial(asyncio.to_thread, us_a_frame, source, setting, volumes)
            cost, ticker_p99_ms = await run.ticker.quiet(measure)
            run.figures.add(f"filters/{name}/us_a_frame", cost, ticker_p99_ms)


def us_a_frame(source: _Noise, setting: Filters, volumes: tuple[float, ...] = ()) -> float:
    """CPU of the calling thread for each of FRAMES frames, with overlays of these volumes. As many are rendered at once
    as in a session that plays."""
    source.loudness = SourceLoudness()
    order = tuple(
        OverlayOrder(FIRST_OVERLAY_SOURCE + number, volume, -12.0, 7_200) for number, volume in enumerate(volumes)
    )
    sources = {1: source} | {overlay.source: _Noise() for overlay in order}
    session = RenderSession(OpenSession(1, 1, 0, setting), sources)
    session.plan(Plan(1, 2, 1, 0, 1, 1, None, setting, overlays=order))
    _render_all(session)
    sent = 0
    begun = time.thread_time()
    while sent < FRAMES:
        sent += BLOCK_FRAMES
        session.grant(Grant(1, 2, sent, sent + GRANT_FRAMES))
        _render_all(session)
    return (time.thread_time() - begun) * 1e6 / FRAMES


def _render_all(session: RenderSession) -> None:
    while session.render() is not None:
        pass

"""Effects, set over HTTP and measured in what a listener hears."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.audio_files import tone, wav
from tests.support.e2e_players import create, patch
from tests.support.e2e_sockets import listening
from tests.support.pcm import channels
from tests.support.running_node import RunningNode

PEAK: Final = 0.3 * 32_768
# Half a second in, when what a filter had to settle is over, and of whole periods of every tone.
START, STOP = 24_000, 72_000


def level(samples: NDArray[np.float64], channel: int, frequency_hz: float) -> float:
    """The peak of a tone in one channel as a share of PEAK."""
    heard = samples[START:STOP, channel]
    turns = frequency_hz / 48_000 * np.arange(START, STOP)
    return float(2.0 * np.abs(np.mean(heard * np.exp(-2j * np.pi * turns))) / PEAK)


# What is sent, and how loud which tone is then in which channel. A tone of 3 kHz is on the left side only.
EFFECTS: Final[dict[str, tuple[dict[str, Any], list[tuple[int, float, float]]]]] = {
    "eq": ({"eq": [{"band": 8, "gain_db": 6}]}, [(1, 1000, 10 ** (6 / 20))]),
    "karaoke": ({"karaoke": {"monoLevel": 0}}, [(0, 1000, 0.0), (0, 3000, 1.0)]),
    "channelMix": (
        {"channelMix": {"leftToLeft": 0.25, "leftToRight": 0.5, "rightToRight": 0.5}},
        [(1, 3000, 0.5), (0, 3000, 0.25)],
    ),
    "timescale": ({"timescale": {"pitch": 1.25}}, [(1, 1250, 1.0)]),
}


async def test_effects_are_heard(node: RunningNode) -> None:
    side = tone(3000, 2.0, level=0.3) * np.array([1.0, 0.0])
    (node.folder / "both.wav").write_bytes(wav(tone(1000, 2.0, level=0.3) + side))
    async with AsyncExitStack() as stack:
        ears = {}
        for name, (body, _) in EFFECTS.items():
            await create(node, name, "both.wav")
            await patch(node, name, "filters", body)
            ears[name] = await stack.enter_async_context(listening(node, name))
        await asyncio.gather(*(ear.frames_heard(80) for ear in ears.values()))
        for name, (_, levels) in EFFECTS.items():
            close = 0.01 if name in ("eq", "channelMix") else 0.05
            for channel, frequency_hz, wanted in levels:
                heard = level(channels(ears[name].pcm).astype(np.float64), channel, frequency_hz)
                assert heard == pytest.approx(wanted, abs=close), (name, channel, frequency_hz)

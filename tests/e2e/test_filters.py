"""The equalizer, set over HTTP and measured in what a listener hears."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import numpy as np
import pytest

from tests.support.audio_files import pcm_of, tone, wav
from tests.support.e2e_players import create, enqueue, order, patch, state
from tests.support.e2e_sockets import Ear, listening
from tests.support.pcm import channels, level_of
from tests.support.running_node import RunningNode

BANDS_HZ = (25, 40, 63, 100, 160, 250, 400, 630, 1000, 1600, 2500, 4000, 6300, 10_000, 16_000)
PEAK = 0.02 * 32768  # 24 dB more are still below the full scale
# 0.2 s hold whole periods of every band's frequency, and ten frames.
MEASURED_FRAMES = 10


async def settled(ear: Ear, frames: int = 15) -> bytes:
    """What is heard so many frames after a change, when what was on its way is through."""
    await ear.more_frames(frames)
    return await ear.more_frames(MEASURED_FRAMES)


@asynccontextmanager
async def _listening_to_all(node: RunningNode, players: list[str]) -> AsyncIterator[dict[str, Ear]]:
    async with AsyncExitStack() as stack:
        yield {player: await stack.enter_async_context(listening(node, player)) for player in players}


async def bands(node: RunningNode, player: str) -> list[float]:
    return [band["gain_db"] for band in (await node.request("GET", f"/v0/players/{player}/filters")).json()["eq"]]


async def test_each_band_has_its_gain_at_its_frequency(node: RunningNode) -> None:
    gains = {0: 6.0, 3: -12.0, 6: 24.0, 8: 12.0, 11: -24.0, 13: 3.0, 14: -6.0}
    for band in gains:
        hz = BANDS_HZ[band]
        (node.folder / f"{hz}.wav").write_bytes(wav(tone(hz, 20.0, level=PEAK / 32768)))
        await create(node, str(band), f"{hz}.wav")
    async with _listening_to_all(node, [str(band) for band in gains]) as ears:
        for band, gain_db in gains.items():
            await patch(node, str(band), "filters", {"eq": [{"band": band, "gain_db": gain_db}]})
        all_heard = await asyncio.gather(*(settled(ears[str(band)], 40) for band in gains))
        for (band, gain_db), heard in zip(gains.items(), all_heard, strict=True):
            heard_db = 20 * np.log10(level_of(heard, BANDS_HZ[band]) / PEAK)
            assert heard_db == pytest.approx(gain_db, abs=0.3), band
        for band in gains:
            await patch(node, str(band), "filters", {"eq": []})
        all_heard = await asyncio.gather(*(settled(ears[str(band)], 40) for band in gains))
        for band, heard in zip(gains, all_heard, strict=True):
            assert level_of(heard, BANDS_HZ[band]) == pytest.approx(PEAK, rel=0.001), band


async def test_filters_survive_the_change_of_tracks_and_flat_is_bit_for_bit_again(node: RunningNode) -> None:
    noise = np.random.default_rng(6).uniform(-0.3, 0.3, (9600, 2))
    (node.folder / "noise.wav").write_bytes(wav(noise))
    await create(node, "p", "noise.wav")
    await enqueue(node, "p", "noise.wav")
    await patch(node, "p", "filters", {"volume": 2.0, "eq": [{"band": 5, "gain_db": 3}, {"band": 5, "gain_db": 0}]})
    async with listening(node, "p") as ear:
        await ear.frames_heard(20)
        # From the first sample on, also of the second track; unless the decoder had no time for it before the listener.
        was_late = (await state(node, "p"))["quality"]["latePlans"] > 0
        error = np.abs(channels(ear.pcm) - 2 * channels(pcm_of(noise) * 2))
        assert error[len(noise) if was_late else 0 :].max() <= 1
        await patch(node, "p", "filters", {"volume": 1.0})
        await order(node, "p", "play")
        assert await ear.more_frames(10) == pcm_of(noise)


async def test_a_preset_of_lavalink_sets_the_bands(node: RunningNode) -> None:
    await create(node, "p", "x.wav")
    await patch(node, "p", "filters", {"equalizer": [{"band": 0, "gain": 0.25}, {"band": 14, "gain": -0.25}]})
    assert await bands(node, "p") == pytest.approx([6.0206, *[0.0] * 13, -24.0], abs=1e-3)
    await patch(node, "p", "filters", {"equalizer": []})
    assert await bands(node, "p") == [0.0] * 15

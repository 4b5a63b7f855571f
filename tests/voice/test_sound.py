"""What a voice channel hears of a player, by a running node and a voice server of our own."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.audio_files import music, tone, wav
from tests.support.e2e_players import create, done, enqueue, order, patch, until_state
from tests.support.e2e_sockets import listening
from tests.support.eventually import eventually
from tests.support.opus_listening import decoded
from tests.support.running_node import RunningNode
from tests.support.voice_media import SILENCE
from tests.support.voice_players import (
    join,
    no_more_lost_than_told,
    packets_of_song,
    voice,
)
from tests.support.voice_server import voice_server
from tonearm.core.frame import FRAME_SAMPLES

_FIRST_HZ: Final = 400
_SECOND_HZ: Final = 1_500


async def test_packets_of_a_source_reach_the_channel_bit_for_bit(node: RunningNode, certificate: Path) -> None:
    source = packets_of_song(node)
    async with voice_server(certificate) as server:
        await create(node, "p", "song.opus")
        session = await join(node, server)
        heard = [packet.payload for packet in await session.heard(100, more=False)]
        await no_more_lost_than_told(node, heard[5:], source[source.index(heard[5]) :])
        sequences = [packet.sequence for packet in session.packets]
        assert [(b - a) & 0xFFFF for a, b in itertools.pairwise(sequences)] == [1] * (len(sequences) - 1)
        assert [packet.counter for packet in session.packets] == list(range(len(session.packets)))


async def test_a_pause_ends_with_five_silences(node: RunningNode, certificate: Path) -> None:
    async with voice_server(certificate) as server:
        await create(node, "p", "song.opus")
        session = await join(node, server)
        await session.heard(10)
        await order(node, "p", "pause")
        await session.until(lambda: session.of(5) and session.of(5)[-1]["speaking"] == 0, "the end of speaking")
        await session.until_silent()
        assert session.packets[-6].payload != SILENCE
        before, count = session.packets[-1], len(session.packets)
        await order(node, "p", "play")
        await session.heard(5)
        after = session.packets[count]
        assert after.sequence == (before.sequence + 1) & 0xFFFF
        gap_ms = ((after.timestamp - before.timestamp) & 0xFFFF_FFFF) / 48
        assert gap_ms % 20 == 0
        assert [said["speaking"] for said in session.of(5)] == [1, 0, 1]


async def test_the_channel_hears_the_first_sample_of_a_player_that_begins_with_a_voice(
    node: RunningNode, certificate: Path
) -> None:
    async with voice_server(certificate, ears=(5,)) as server:
        await create(node, "p", "song.opus", voice=voice(server))
        session = await server.session(1)
        heard = await session.heard(20, more=False)
        await no_more_lost_than_told(node, [packet.sound for packet in heard], packets_of_song(node))


async def test_controls_are_heard_in_the_channel(node: RunningNode, certificate: Path) -> None:
    source = packets_of_song(node)
    (node.folder / "other.wav").write_bytes(wav(music(30.0)))
    async with voice_server(certificate) as server:
        await create(node, "p", "song.opus")
        session = await join(node, server)
        await session.heard(5)

        async def newest_is(holds: Callable[[bytes], bool], what: str) -> None:
            await session.until(lambda: not session.packets[-1].is_silence and holds(session.packets[-1].payload), what)

        there = set(source[1500:])
        await done(node, "PATCH", "/v0/players/p/position", {"position": 30_000})
        await newest_is(there.__contains__, "the sound behind the seek")
        await patch(node, "p", "filters", {"volume": 0.5})
        await newest_is(lambda packet: packet not in source, "another volume")
        await patch(node, "p", "filters", {"volume": 1})
        await newest_is(there.__contains__, "packets as they are")
        await enqueue(node, "p", "other.wav")
        await order(node, "p", "skip")
        await until_state(node, "p", lambda now: now["track"]["info"]["identifier"].endswith("other.wav"))
        await newest_is(lambda packet: packet not in source, "the next track")
        sequences = [packet.sequence for packet in session.packets]
        assert {(b - a) & 0xFFFF for a, b in itertools.pairwise(sequences)} == {1}


@pytest.mark.parametrize("is_skipped", [True, False], ids=["skip", "end"])
async def test_a_crossfade_is_heard_as_by_any_listener(node: RunningNode, certificate: Path, is_skipped: bool) -> None:
    for name, frequency_hz in (("first", _FIRST_HZ), ("second", _SECOND_HZ)):
        (node.folder / f"{name}.wav").write_bytes(wav(tone(frequency_hz, 4.0 if is_skipped else 2.0)))
    async with voice_server(certificate, ears=(5,)) as server:
        await create(node, "p", "first.wav", voice=voice(server))
        async with listening(node, "p") as ear:
            await patch(node, "p", "crossfade", {"durationMs": 600, "onSkip": True})
            await enqueue(node, "p", "second.wav")
            session = await server.session(1)
            await session.heard(25, more=False)
            if is_skipped:
                await order(node, "p", "skip")
            await until_state(node, "p", lambda now: now["state"] == "idle")
            await session.until(lambda: session.packets[-1].is_silence, "the end of the sound")
            by_listener = _which_sound(np.frombuffer(ear.pcm, dtype="<i2").reshape(-1, 2).astype(float))
    in_channel = _which_sound(decoded([packet.sound or b"" for packet in session.sounds]))
    fades = [sounds.strip().count("x") for sounds in (in_channel, by_listener)]
    assert all(25 <= fade <= 31 for fade in fades), (in_channel, by_listener)
    assert in_channel.replace("x", "").strip().strip("1").strip("2") == "", in_channel


def _which_sound(samples: NDArray[np.float64]) -> str:
    """A letter a frame: 1 or 2, x for both, a space for none."""
    frames = samples[: len(samples) // FRAME_SAMPLES * FRAME_SAMPLES, 0].reshape(-1, FRAME_SAMPLES)
    times = np.arange(FRAME_SAMPLES) / 48_000
    peaks = [
        np.abs(frames @ np.exp(-2j * np.pi * frequency_hz * times)) * 2 / FRAME_SAMPLES
        for frequency_hz in (_FIRST_HZ, _SECOND_HZ)
    ]
    heard = np.column_stack(peaks) > 16_384 * 0.05
    return "".join({(True, True): "x", (True, False): "1", (False, True): "2"}.get(tuple(each), " ") for each in heard)


async def test_the_figures_count_voices_and_show_their_process(node: RunningNode, certificate: Path) -> None:
    async with voice_server(certificate) as server:
        await create(node, "p", "song.opus")
        session = await join(node, server)
        await session.heard(60)  # processes say once a second what they have sent

        async def counted() -> bool:
            return bool((await node.request("GET", "/v0/stats")).json()["voice"]["packets"]["sent"])

        await eventually(counted, "the packets are counted")
        figures = (await node.request("GET", "/v0/stats")).json()["voice"]
        assert figures["connections"] == {"connecting": 0, "connected": 1, "resuming": 0, "closed": 0}
        (process,) = (one for one in figures["processes"] if one["connections"])
        assert process["memoryBytes"] > 1_000_000
        assert process["cpuSeconds"] > 0

"""What listeners get on `/ws`: whole frames at their pace, and each listener for itself."""

import aiohttp
import numpy as np

from tests.support.audio_files import flac, music, pcm_of, wav
from tests.support.e2e_players import create, delete, order, state, until_state
from tests.support.e2e_sockets import following, listening
from tests.support.http_client import websocket
from tests.support.running_node import RunningNode

NOISE = np.random.default_rng(1).uniform(-0.5, 0.5, (48_000, 2))


async def test_listeners_hear_the_same_bytes_whatever_they_say(node: RunningNode) -> None:
    (node.folder / "noise.wav").write_bytes(wav(NOISE))
    await create(node, "p", "noise.wav", paused=True)
    async with (
        aiohttp.ClientSession() as session,
        listening(node, "p") as first,
        listening(node, "p") as second,
        # Offers compression, which a sound gains nothing by.
        session.ws_connect(f"{node.url}/v0/players/p/ws", compress=15) as third,
    ):
        assert third.compress == 0
        await third.send_str("hello")
        await third.send_bytes(b"\0" * 4000)
        await third.ping()
        await order(node, "p", "play")
        heard = []
        async for message in third:
            assert message.type is aiohttp.WSMsgType.BINARY
            heard.append(message.data)
            if len(heard) == 20:
                break
        await first.frames_heard(50)
        await delete(node, "p")
        assert (await first.closed(), await second.closed()) == (1000, 1000)
    whole = pcm_of(NOISE)
    assert first.pcm == whole
    assert second.frames
    assert whole.endswith(second.pcm)
    assert b"".join(heard) in whole


async def test_while_paused_nothing_comes_and_nothing_is_lost(node: RunningNode) -> None:
    noise = np.tile(NOISE, (20, 1))
    (node.folder / "noise.wav").write_bytes(wav(noise))
    (node.folder / "long.wav").write_bytes(wav(music(30.0)))
    await create(node, "p", "noise.wav")
    await create(node, "other", "long.wav")
    async with listening(node, "other") as other_ear, listening(node, "p") as ear:
        for heard in (5, 15, 30):
            await ear.frames_heard(heard)
            await order(node, "p", "pause")
            paused = await state(node, "p")
            assert (paused["state"], paused["paused"]) == ("playing", True)
            frames = paused["quality"]["framesSent"]
            assert paused["position"] == frames * 20
            await ear.frames_heard(frames)
            await other_ear.more_frames(5)
            assert len(ear.frames) == frames
            assert (await state(node, "p"))["position"] == frames * 20
            await order(node, "p", "play")
        await ear.frames_heard(50)
        await delete(node, "p")
        await ear.closed()
    assert ear.pcm == pcm_of(noise)[: len(ear.pcm)]


async def test_over_a_longer_time_and_beside_a_listener_that_takes_nothing(node: RunningNode) -> None:
    long = music(30.0)
    (node.folder / "long.flac").write_bytes(flac(long))
    frames = 620  # 12.4 s: longer than a listener may take nothing
    await create(node, "p", "long.flac")
    async with (
        following(node, "p") as tape,
        listening(node, "p") as ear,
        websocket(node.port, "/v0/players/p/ws", receive_buffer_bytes=4096) as stuck,
    ):
        await ear.frames_heard(frames)
        figures = await until_state(node, "p", lambda now: now["listeners"] == 1)
        kept = await stuck.read_to_end()
    # Every sample, in its place.
    assert pcm_of(long).startswith(ear.pcm)
    # No faster than the music: the node may catch up a little, and this client may read a little late.
    took_s = ear.arrivals_s[frames - 1] - ear.arrivals_s[0]
    assert took_s > (frames - 1) * 0.02 - 1.0
    # No slower either, but for what the machine lost by itself.
    assert took_s < (frames - 1) * 0.02 + 6.0
    assert figures["quality"]["framesLostByListeners"] > 300
    # What was sent to the stuck one is whole frames, then its close, as far as it was sent at all.
    assert kept.startswith(b"\x82\x7e\x0f\x00")
    updates = [event for event in tape.events if event["op"] == "PlayerUpdate"]
    assert [update["state"] for update in updates[:3]] == ["playing"] * 3
    assert [update["position"] for update in updates[1:3]] == [5000, 10_000]

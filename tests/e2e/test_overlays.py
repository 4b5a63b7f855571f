"""Overlays on a running node: requests and their answers, what is heard, and the events."""

import asyncio
import uuid
from typing import Any

import numpy as np

from tests.support.audio_files import flac, music, pcm_of, wav
from tests.support.e2e_players import create, delete, done, patch, refusal, state
from tests.support.e2e_sockets import following, listening
from tests.support.eventually import eventually
from tests.support.media_server import MediaServer, media, once_set
from tests.support.pcm import channels
from tests.support.running_node import RunningNode

PLAYER = "/v0/players/p"
OVERLAYS = f"{PLAYER}/overlays"


def write(node: RunningNode, name: str, seconds: float, seed: int = 1) -> bytes:
    signal = music(seconds, seed=seed)
    (node.folder / name).write_bytes(wav(signal))
    return pcm_of(signal)


async def post(node: RunningNode, **body: object) -> str:
    answer = await node.request("POST", OVERLAYS, body)
    assert answer.status == 201, answer.body
    overlay_id: str = answer.json()["overlayId"]
    assert str(uuid.UUID(overlay_id)) == overlay_id
    return overlay_id


async def overlays(node: RunningNode) -> Any:
    answer = await node.request("GET", OVERLAYS)
    assert answer.status == 200
    return answer.json()


async def test_one_is_made_shown_heard_and_over(node: RunningNode) -> None:
    write(node, "song.wav", 20.0)
    clip = write(node, "jingle.wav", 3.0, seed=2)
    await create(node, "p", "song.wav")
    await patch(node, "p", "filters", {"volume": 0})
    async with listening(node, "p") as ear, following(node, "p") as tape:
        await ear.frames_heard(10)
        overlay_id = await post(node, uri="jingle.wav", volume=1, duckDb=-20, fadeMs=50)
        await tape.until("OverlayStart", overlayId=overlay_id)
        answer = await node.request("GET", f"{OVERLAYS}/{overlay_id}")
        shown = answer.json()
        position = shown.pop("position")
        assert 0 <= position < 3_000
        assert shown == {
            "overlayId": overlay_id,
            "uri": "jingle.wav",
            "state": "playing",
            "length": 3_000,
            "volume": 1.0,
            "duckDb": -20.0,
            "fadeMs": 50,
            "startMs": 0,
        }
        assert [one["overlayId"] for one in await overlays(node)] == [overlay_id]
        assert [one["overlayId"] for one in (await state(node, "p"))["overlays"]] == [overlay_id]
        await tape.until("OverlayEnd", overlayId=overlay_id, reason="finished")
        assert await overlays(node) == []
        await ear.more_frames(2)
        assert clip in ear.pcm  # bit for bit: nothing else sounds
    assert refusal(await node.request("GET", f"{OVERLAYS}/{overlay_id}")) == (404, "overlay_not_found")


async def test_an_encoded_track_is_one_and_is_taken_away(node: RunningNode) -> None:
    write(node, "song.wav", 20.0)
    write(node, "jingle.wav", 20.0, seed=2)
    await create(node, "p", "song.wav")
    answer = await node.request("GET", "/v0/loadtracks?identifier=jingle.wav")
    async with listening(node, "p"), following(node, "p") as tape:
        overlay_id = await post(node, encoded=answer.json()["data"]["encoded"])
        await tape.until("OverlayStart")
        await done(node, "DELETE", f"{OVERLAYS}/{overlay_id}")
        await tape.until("OverlayEnd", overlayId=overlay_id, reason="stopped")
    assert refusal(await node.request("DELETE", f"{OVERLAYS}/{overlay_id}")) == (404, "overlay_not_found")


async def test_deleting_the_player_ends_it(node: RunningNode) -> None:
    write(node, "song.wav", 20.0)
    write(node, "jingle.wav", 20.0, seed=2)
    await create(node, "p", "song.wav")
    async with listening(node, "p"), following(node, "p") as tape:
        await post(node, uri="jingle.wav")
        await tape.until("OverlayStart")
        await delete(node, "p")
        await tape.closed()
        assert tape.summary()[-3:] == ["TrackEnd song stopped", "OverlayEnd stopped", "PlayerDelete"]


async def eventually_loaded(node: RunningNode, count: int) -> None:
    """Waits until so many overlays are opened: their length is known."""

    async def are_there() -> bool:
        return len([overlay for overlay in await overlays(node) if overlay["length"]]) == count

    await eventually(are_there, f"{count} overlays with a length")


async def test_several_begin_with_the_same_frame(node: RunningNode) -> None:
    clips = [music(0.4 + 0.1 * number, seed=number) * 0.3 for number in range(3)]
    (node.folder / "a.wav").write_bytes(wav(clips[0]))
    (node.folder / "b.flac").write_bytes(flac(clips[1]))
    answers = asyncio.Event()
    answer = await node.request("POST", "/v0/players", {"id": "p", "idle": True})
    assert answer.status == 201
    async with MediaServer() as server, listening(node, "p") as ear, following(node, "p") as tape:
        uris = ["a.wav", "b.flac", server.serve("/c.wav", once_set(answers, media(wav(clips[2]))))]
        body = {"overlays": [{"uri": uri, "volume": 0.5} for uri in uris]}
        answer = await node.request("POST", OVERLAYS, body)
        overlay_ids = answer.json()["overlayIds"]
        assert (answer.status, len(set(overlay_ids))) == (201, 3)
        await eventually_loaded(node, 2)
        assert ear.pcm == b""
        answers.set()
        for _ in uris:
            await tape.until("OverlayEnd", reason="finished")
        await delete(node, "p")
        await ear.closed()
        begun = [event["overlayId"] for event in tape.events if event["op"] == "OverlayStart"]
        assert begun == overlay_ids
    longest = len(clips[2])
    together = sum(np.pad(channels(pcm_of(clip)) * 0.5, ((0, longest - len(clip)), (0, 0))) for clip in clips)
    assert np.abs(channels(ear.pcm)[:longest] - together).max() <= 2

"""Overlays on a running node: requests and their answers, what is heard, and the events."""

import uuid
from typing import Any

from tests.support.audio_files import music, pcm_of, wav
from tests.support.e2e_players import create, delete, patch, refusal, state
from tests.support.e2e_sockets import following, listening
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

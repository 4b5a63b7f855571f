"""Many creates at once with one id, a player without a track, and limits that a configuration sets."""

import asyncio
from collections import Counter
from pathlib import Path

from tests.support.audio_files import music, wav
from tests.support.e2e_players import PATIENT, create, enqueue, patch, refusal, state, waiting_uris
from tests.support.e2e_sockets import following, listening
from tests.support.http_client import WEBSOCKET_HEADERS
from tests.support.running_node import RunningNode, running_node


async def test_of_many_creates_at_once_with_one_id_one_succeeds(node: RunningNode) -> None:
    answers = await asyncio.gather(
        *(
            node.request("POST", "/v0/players", {"id": f"p{number % 5}", "uri": f"{number}.wav"})
            for number in range(100)
        )
    )
    assert Counter(answer.status for answer in answers) == {201: 5, 409: 95}
    # The one that was told so is the one that is there.
    won = {number for number, answer in enumerate(answers) if answer.status == 201}
    players = (await node.request("GET", "/v0/players")).json()
    assert {player["track"]["info"]["identifier"] for player in players} == {f"{number}.wav" for number in won}


async def test_a_player_begins_idle_and_plays_its_first_track(node: RunningNode) -> None:
    (node.folder / "song.wav").write_bytes(wav(music(0.3)))
    assert (await node.request("POST", "/v0/players", {"id": "p", "idle": True})).status == 201
    now = await state(node, "p")
    assert (now["state"], now["trackId"], now["track"]["info"]["uri"]) == ("idle", "", "")
    seek = await node.request("PATCH", "/v0/players/p/position", {"position": 1})
    assert (seek.status, b"no track yet" in seek.body) == (409, True)
    async with following(node, "p") as tape, listening(node, "p"):
        await enqueue(node, "p", "song.wav")
        await tape.until("TrackEnd", reason="finished")


async def test_limits_are_those_of_the_configuration(tmp_path: Path) -> None:
    config = "max_players = 2\nmax_waiting_tracks = 3\nmax_waiting_bytes = 100000\nmax_listeners = 1\n"
    async with running_node(tmp_path, f"{PATIENT}{config}max_event_bytes = 200000\n") as node:

        async def is_too_much(key: str, method: str, target: str, body: object = None) -> None:
            headers = WEBSOCKET_HEADERS if target.endswith("ws") else ()
            answer = await node.request(method, target, body, headers=headers)
            limit = (400, "bad_request") if "metadata" in key else (429, "limit_reached")
            assert refusal(answer) == limit, key
            assert f"player.{key}" in answer.json()["message"]

        queue, fat = "/v0/players/a/queue", {"x": "y" * (64 * 1024 - len('{"x":""}'))}
        await create(node, "a", "x.wav", metadata=fat)
        (tmp_path / "list.m3u").write_text("a.wav\nftp://x.example/b\nc.wav\nd.wav\ne.wav\nf.wav\n")
        left_out = (await node.request("POST", "/v0/players", {"id": "b", "uri": "list.m3u"})).json()["leftOut"]
        assert (left_out["count"], len(left_out["reasons"])) == (2, 2)
        assert "no room" in left_out["reasons"][0]
        assert await waiting_uris(node, "b") == [f"{tmp_path}/{name}.wav" for name in "cde"]
        await is_too_much("max_players", "POST", "/v0/players", {"id": "c", "uri": "x.wav"})

        larger = {"uri": "x.wav", "metadata": {**fat, "z": 1}}
        await is_too_much("max_metadata_bytes", "PATCH", "/v0/players/a/metadata", {"value": {"z": 1}})
        await is_too_much("max_metadata_bytes", "POST", queue, {"tracks": [{"uri": "x.wav"}, larger]})
        await is_too_much("max_metadata_bytes", "PUT", "/v0/players/a/track", larger)
        await enqueue(node, "a", "fat.wav", fat)
        await is_too_much("max_waiting_bytes", "POST", queue, {"uri": "x.wav", "metadata": fat})
        for number in range(2):
            await enqueue(node, "a", f"{number}.wav")
        await is_too_much("max_waiting_tracks", "POST", queue, {"uri": "x.wav", "metadata": {}})
        assert await waiting_uris(node, "a") == ["fat.wav", "0.wav", "1.wav"]
        async with listening(node, "a"):
            for target in ("/v0/players/a/ws", "/v0/players/a/stream.wav"):
                await is_too_much("max_listeners", "GET", target)

        for number in range(6):
            await patch(node, "b", "metadata", {"value": {"x": "y" * 60_000, "number": number}})
        seq = (await state(node, "b"))["seq"]
        async with following(node, "b", f"?since={seq - 3}") as tape:
            assert [(await tape.until("MetadataChange"))["metadata"]["number"] for _ in range(3)] == [3, 4, 5]
        async with following(node, "b", f"?since={seq - 5}") as tape:
            assert (await tape.until("PlayerState"))["lost"] is True

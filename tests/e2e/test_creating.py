"""What a player may begin with, and limits that a configuration sets."""

import asyncio
import base64
from collections import Counter
from pathlib import Path

from tests.support.audio_files import music, pcm_of, wav
from tests.support.e2e_players import (
    PATIENT,
    create,
    delete,
    enqueue,
    patch,
    refusal,
    state,
    until_state,
    waiting_uris,
)
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


async def test_limits_are_those_of_the_configuration(tmp_path: Path) -> None:
    config = "max_players = 2\nmax_waiting_tracks = 3\nmax_waiting_bytes = 100000\nmax_listeners = 1\n"
    async with running_node(tmp_path, f"{PATIENT}{config}max_event_bytes = 200000\n") as node:
        await create(node, "a", "x.wav")
        await create(node, "b", "x.wav")
        answer = await node.request("POST", "/v0/players", {"id": "c", "uri": "x.wav"})
        assert refusal(answer) == (429, "limit_reached")
        assert "player.max_players" in answer.json()["message"]
        await delete(node, "b")
        (tmp_path / "list.m3u").write_text("a.wav\nftp://x.example/b\nc.wav\nd.wav\ne.wav\nf.wav\n")
        answer = await node.request("POST", "/v0/players", {"id": "c", "uri": "list.m3u"})
        left_out = answer.json()["leftOut"]
        assert (answer.status, left_out["count"], len(left_out["reasons"])) == (201, 2, 2)
        assert "no room" in left_out["reasons"][0]
        assert await waiting_uris(node, "c") == [f"{tmp_path}/{name}.wav" for name in "cde"]

        await enqueue(node, "a", "fat.wav", "x" * 60_000)
        answer = await node.request("POST", "/v0/players/a/queue", {"uri": "x.wav", "metadata": "x" * 60_000})
        assert refusal(answer) == (429, "limit_reached")
        assert "player.max_waiting_bytes" in answer.json()["message"]
        assert (await node.request("DELETE", "/v0/players/a/queue")).status == 204
        for number in range(3):
            await enqueue(node, "a", f"{number}.wav")
        answer = await node.request("POST", "/v0/players/a/queue", {"uri": "x.wav", "metadata": {}})
        assert refusal(answer) == (429, "limit_reached")
        assert "player.max_waiting_tracks" in answer.json()["message"]
        assert await waiting_uris(node, "a") == ["0.wav", "1.wav", "2.wav"]

        async with listening(node, "a"):
            for target in ("/v0/players/a/ws", "/v0/players/a/stream.wav"):
                upgrade = WEBSOCKET_HEADERS if target.endswith("ws") else ()
                answer = await node.request("GET", target, headers=upgrade)
                assert refusal(answer) == (429, "limit_reached")
                assert "player.max_listeners" in answer.json()["message"]

        for number in range(6):
            await patch(node, "c", "metadata", {"value": {"x": "y" * 60_000, "number": number}})
        seq = (await state(node, "c"))["seq"]
        async with following(node, "c", f"?since={seq - 3}") as tape:
            assert [(await tape.until("MetadataChange"))["metadata"]["number"] for _ in range(3)] == [3, 4, 5]
        async with following(node, "c", f"?since={seq - 5}") as tape:
            assert (await tape.until("PlayerState"))["lost"] is True


async def test_a_player_begins_idle_and_gets_its_first_track_later(node: RunningNode) -> None:
    song, beep = music(0.3, seed=1), music(0.2, seed=2)
    (node.folder / "song.wav").write_bytes(wav(song))
    (node.folder / "beep.wav").write_bytes(wav(beep))
    answer = await node.request("POST", "/v0/players", {"id": "p", "idle": True, "metadata": {"guild": 1}})
    assert (answer.status, answer.json()) == (201, {"id": "p"})
    now = await state(node, "p")
    assert (now["state"], now["trackId"], now["position"], now["metadata"]) == ("idle", "", 0, {"guild": 1})
    assert now["track"]["info"]["uri"] == ""
    async with following(node, "p") as tape, listening(node, "p") as ear:
        # There is nothing to show; an overlay sounds all the same.
        assert refusal(await node.request("GET", "/v0/players/p/artwork")) == (404, "no_artwork")
        assert (await node.request("POST", "/v0/players/p/overlays", {"uri": "beep.wav", "duckDb": 0})).status == 201
        await tape.until("OverlayEnd", reason="finished")
        await enqueue(node, "p", "song.wav")
        await tape.until("PlayerUpdate", state="idle")
        assert (await node.request("GET", "/v0/players/p/history")).json()[0]["uri"] == "song.wav"
        await delete(node, "p")
        await ear.closed()
        assert ear.pcm.startswith(pcm_of(beep))
        assert pcm_of(song) in ear.pcm
        tracks = [line for line in tape.summary() if line.startswith("Track")]
        assert tracks == ["TrackStart song", "TrackEnd song finished"]


async def test_a_player_begins_with_a_part_of_a_file_and_metadata_of_its_own(node: RunningNode) -> None:
    song = music(1.0, seed=1)
    (node.folder / "song.wav").write_bytes(wav(song))
    track = {"uri": "song.wav", "startMs": 200, "endMs": 500, "metadata": {"by": "me"}}
    answer = await node.request("POST", "/v0/players", {"id": "p", "track": track, "metadata": {"guild": 1}})
    assert (answer.status, answer.json()) == (201, {"id": "p"})
    now = await state(node, "p")
    assert (now["track"]["userData"], now["metadata"]) == ({"by": "me"}, {"guild": 1})
    assert (now["startMs"], now["endMs"]) == (200, 500)
    async with following(node, "p") as tape, listening(node, "p") as ear:
        start = await tape.until("TrackStart")
        assert (start["position"], start["startMs"], start["endMs"]) == (200, 200, 500)
        assert start["track"]["info"]["length"] == 1000  # the file's
        assert (await tape.until("TrackEnd"))["playedMs"] == 300
        await delete(node, "p")
        await ear.closed()
        assert len(ear.pcm) == 300 * 192


async def test_a_player_begins_with_what_it_is_given(node: RunningNode) -> None:
    (node.folder / "a.wav").write_bytes(wav(music(1.0)))
    filters = {"volume": 3, "eq": [{"band": 2, "gain_db": 6}]}
    await create(node, "p", "a.wav", paused=True, volume=0.5, filters=filters, loop="queue", metadata={"room": 1})
    now = await state(node, "p")
    assert (now["paused"], now["volume"], now["loop"]) == (True, 0.5, "queue")
    assert (now["metadata"], now["error"]) == ({"room": 1}, None)
    assert now["eq"][2]["gain_db"] == 6.0
    assert now["crossfade"] == {"durationMs": 0, "curve": "equalPower", "onSkip": False}
    async with following(node, "p", "?since=0") as tape:
        await patch(node, "p", "metadata", {"value": {"room": 2}})
        await tape.until("MetadataChange")
        assert "FiltersChange" not in {event["op"] for event in tape.events}


async def test_an_encoded_track_is_as_good_as_its_uri(node: RunningNode) -> None:
    (node.folder / "a.wav").write_bytes(wav(music(1.0)))
    uri = str(node.folder / "a.wav")
    encoded = (await node.request("GET", f"/v0/loadtracks?identifier={uri}")).json()["data"]["encoded"]
    answer = await node.request("POST", "/v0/players", {"id": "p", "encoded": encoded, "paused": True})
    assert (answer.status, answer.json()) == (201, {"id": "p"})
    now = await until_state(node, "p", lambda now: now["track"]["info"]["isSeekable"])
    assert (now["track"]["info"]["identifier"], now["track"]["info"]["length"]) == (uri, 1000)
    plain = base64.b64encode(str(node.folder / "b.wav").encode()).decode()
    added = await node.request("PUT", "/v0/players/p/track", {"encoded": plain})
    now = await state(node, "p")
    assert (now["trackId"], now["track"]["info"]["title"]) == (added.json()["trackId"], "b")
    # Beside a URI it is one of the fields that are ignored.
    assert (await node.request("PUT", "/v0/players/p/track", {"uri": "a.wav", "encoded": "!"})).status == 201

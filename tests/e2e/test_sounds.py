"""Sounds that clients send as bytes: played wherever a URI can stand, and gone after a while; and what is no sound."""

import contextlib
import gzip
import re
import time
from pathlib import Path

import pytest

from tests.support.audio_files import flac, music, pcm_of, tone, wav
from tests.support.e2e_players import PATIENT, create, done, hear_to_end, refusal
from tests.support.e2e_sockets import following, listening
from tests.support.eventually import eventually
from tests.support.http_client import Answer, connected, request
from tests.support.running_node import RunningNode, running_node
from tonearm.client import ApiError, BadRequest, LimitReached, Node, NotFound

SOUND = music(0.5, seed=7)
MAX_BYTES = 10 * 1024 * 1024
HTML = b"<!doctype html><html><head><title>Not found</title></head><body><h1>404</h1></body></html>\n" * 50


async def send(node: RunningNode, data: bytes, content_type: str = "audio/wav") -> Answer:
    return await request(node.port, "POST", "/v0/sounds", headers=(("Content-Type", content_type),), body=data)


async def test_a_sound_is_played_wherever_a_uri_can_stand(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(wav(tone(440, 20.0)))
    async with running_node(tmp_path, PATIENT) as node:
        made = (await send(node, wav(SOUND))).json()
        uri = made["uri"]
        assert re.fullmatch("sound:[0-9a-f]{32}", uri)
        assert (made["length"], made["bytes"]) == (500, len(wav(SOUND)))
        assert 0 < made["expiresAt"] - time.time() * 1000 <= 600_000
        # As a track, behind another one, and a part of it.
        assert (await hear_to_end(node, "p", uri, uri)).pcm == pcm_of(SOUND) * 2
        part = await hear_to_end(node, "p", f"{uri}#t=0.1,0.3")
        assert "finished" in [event.get("reason") for event in part.events]
        assert 10 * 3840 <= len(part.pcm) <= 11 * 3840
        # As what is looked up, and what that says of it.
        loaded = (await node.request("GET", f"/v0/loadtracks?identifier={uri}")).json()
        assert loaded["loadType"] == "track"
        info = loaded["data"]["info"]
        assert (info["title"], info["length"], info["sourceName"], info["uri"]) == ("Sound", 500, "direct", uri)
        body = {"id": "encoded", "encoded": loaded["data"]["encoded"]}
        assert (await node.request("POST", "/v0/players", body)).status == 201
        # As an overlay over music, and several of them, as on a board.
        await create(node, "music", "song.wav")
        async with following(node, "music") as tape, listening(node, "music") as ear:
            await ear.frames_heard(5)
            body = {"overlays": [{"uri": uri, "duckDb": -18}, {"uri": uri}]}
            overlay_ids = (await node.request("POST", "/v0/players/music/overlays", body)).json()["overlayIds"]
            ends = [await tape.until("OverlayEnd", reason="finished") for _ in overlay_ids]
            assert {end["overlayId"] for end in ends} == set(overlay_ids)
            gone = await node.request("GET", f"/v0/players/music/overlays/{overlay_ids[0]}")
            assert refusal(gone) == (404, "overlay_not_found")
            # What plays it plays on when it ends; then it is gone, with a hint.
            assert (await node.request("PUT", "/v0/players/music/track", {"uri": uri})).status == 201
            await tape.until("TrackStart")
            await done(node, "DELETE", f"/v0/sounds/{uri.removeprefix('sound:')}")
            assert (await tape.until("TrackEnd", reason="finished"))["playedMs"] == 500
            assert (await node.request("POST", "/v0/players/music/overlays", {"uri": uri})).status == 201
            error = (await tape.until("OverlayException"))["error"]
        assert error["code"] == "file_missing"
        assert "sounds are kept, in memory only, for 600 s after their last use" in error["hint"]
        assert not any(uri in line for line in node.log if "refused" in line)


async def test_sounds_have_no_policy_of_links_and_files_and_a_room_of_their_own(tmp_path: Path) -> None:
    """Also for what comes through a proxy, which files and private addresses are not open to. A sound that is sent
    slowly has its room until its client is gone."""
    limits = "[sounds]\nmax_bytes = 100000\ntotal_bytes = 100000\n"
    config = f'{PATIENT}{limits}[sources]\nallowed = ["^https://radio[.]example/"]\nfiles = "auto"\n'
    proxied = (("X-Forwarded-For", "203.0.113.7"),)
    data, made = wav(SOUND)[:90_000], None
    async with running_node(tmp_path, config) as node, Node(node.url) as client:
        async with connected(node.port) as slow:
            slow.send_request("POST", "/v0/sounds", (("Content-Length", "5000"), ("Content-Encoding", "gzip")))
            slow.send(gzip.compress(data)[:1000])
            await slow.read_by_node()
            with pytest.raises(LimitReached, match="being sent"):
                await client.send_sound(data)

        async def has_room() -> bool:
            nonlocal made
            with contextlib.suppress(LimitReached):
                made = await client.send_sound(data)
            return made is not None

        await eventually(has_room, "its room is free again")
        assert made is not None
        for headers in ((), proxied):
            loaded = await node.request("GET", f"/v0/loadtracks?identifier={made.uri}", headers=headers)
            assert loaded.json()["loadType"] == "track"
        await client.end_sound(made.uri)
        with pytest.raises(NotFound):
            await client.end_sound(made.uri)
        with pytest.raises(ApiError, match="larger than 100000 bytes"):
            await client.send_sound(bytes(100001))
        with pytest.raises(BadRequest, match="Send the bytes of an audio file"):
            await client.send_sound(b"no audio")


async def test_a_sound_is_given_back_and_ended(node: RunningNode) -> None:
    song = flac(SOUND)
    for content_type, given in (
        ("audio/flac", "audio/flac"),
        ("application/x-www-form-urlencoded", "application/octet-stream"),  # what curl says by itself
        ("text/html; charset=utf-8", "application/octet-stream"),
        ("audio/<script>", "application/octet-stream"),
    ):
        answer = await send(node, song, content_type)
        assert answer.status == 201, (content_type, answer.body)
        path = f"/v0/sounds/{answer.json()['uri'].removeprefix('sound:')}"
        got = await node.request("GET", path)
        assert (got.status, got.body, got.header("Content-Type")) == (200, song, given)
        assert got.header("X-Content-Type-Options") == "nosniff"
        await done(node, "DELETE", path)
        for method in ("GET", "DELETE"):
            assert refusal(await node.request(method, path)) == (404, "not_found")
    assert refusal(await node.request("GET", "/v0/sounds")) == (405, "method_not_allowed")


async def test_what_is_no_sound_is_refused_with_the_reason_and_costs_no_sound_its_place(node: RunningNode) -> None:
    before = (await send(node, wav(SOUND))).json()["uri"].removeprefix("sound:")
    for data, refused, said in (
        (bytes(MAX_BYTES), (400, "load_failed"), "audio"),
        (bytes(MAX_BYTES + 1), (413, "body_too_large"), str(MAX_BYTES)),
        (HTML, (400, "load_failed"), "web page"),
        (b"#EXTM3U\n#EXTINF:1,x\n/etc/passwd\n", (400, "load_failed"), "playlist"),
        (b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1/a.ts\n", (400, "load_failed"), ""),
        (wav(SOUND)[:20], (400, "load_failed"), ""),
    ):
        answer = await send(node, data)
        assert refusal(answer) == refused, data[:30]
        assert said in answer.json()["message"]
    assert (await node.request("GET", f"/v0/sounds/{before}")).status == 200

"""Sources that do not play: what clients are told, and how the player goes on."""

import random
from typing import Any

import numpy as np

from tests.support.audio_files import m4a, music, video_without_sound, wav
from tests.support.certificate import unsigned_certificate
from tests.support.e2e_players import (
    Heard,
    create,
    hear_all,
    hear_to_end,
    refusal,
)
from tests.support.media_server import MediaServer, media
from tests.support.running_node import RunningNode

NOISE = np.random.default_rng(2).uniform(-0.5, 0.5, (24_000, 2))


def error_of(heard: Heard) -> dict[str, Any]:
    (event,) = (event for event in heard.events if event["op"] == "TrackException")
    error: dict[str, Any] = event["error"]
    return error


async def test_each_kind_of_bad_source_is_told_once_and_in_full(node: RunningNode, refusing_port: int) -> None:
    (node.folder / "folder.mp3").mkdir()
    (node.folder / "empty.mp3").write_bytes(b"")
    (node.folder / "noise.mp3").write_bytes(random.Random(4).randbytes(50_000))
    (node.folder / "silent film.mp4").write_bytes(video_without_sound())
    (node.folder / "cut off.m4a").write_bytes(m4a(music(0.5, 44_100))[:600])
    (node.folder / "header only.wav").write_bytes(wav(NOISE)[:44])
    async with (
        MediaServer() as server,
        MediaServer(tls=unsigned_certificate(node.folder)) as tls_server,
    ):
        server.serve("/empty", media(b""))
        wanted: dict[str, tuple[str, str, int | None]] = {
            "missing.mp3": ("file_missing", "connect", None),
            "folder.mp3": ("file_unreadable", "connect", None),
            "empty.mp3": ("empty", "", None),
            "noise.mp3": ("not_audio", "decode", None),
            "silent film.mp4": ("no_audio_stream", "decode", None),
            server.url("/none"): ("http_status", "connect", 404),
            server.url("/empty"): ("empty", "", None),
            f"http://127.0.0.1:{refusing_port}/x.mp3": ("connect_failed", "connect", None),
            "http://no-such-host.invalid/x.mp3": ("name_not_found", "connect", None),
            tls_server.url("/x.mp3"): ("tls", "connect", None),
        }
        heard = await hear_all(node, {uri: uri for uri in (*wanted, "header only.wav", "cut off.m4a")})
    for uri, (code, stage, http_status) in wanted.items():
        exception, *rest = heard[uri].summary
        assert exception.split()[0] == "TrackException", uri
        assert exception.endswith(code), (uri, exception)
        assert [text.split()[0] + " " + text.split()[-1] for text in rest] == [
            "TrackEnd loadFailed",
            "PlayerUpdate failed",
            "PlayerDelete PlayerDelete",
        ]
        error = error_of(heard[uri])
        # Whether nothing is seen on opening or on reading is the node's own matter. More servers: test_faults.
        assert error["stage"] == stage or not stage, uri
        assert error["stage"] in ("resolve", "connect", "read", "decode", "filter")
        assert error.get("httpStatus") == http_status, uri
        assert set(error) <= {"code", "stage", "message", "hint", "httpStatus"}
        assert len(error["message"]) > 10
        assert len(error["hint"]) > 10
        assert heard[uri].pcm == b""
    assert error_of(heard["header only.wav"])["code"] in ("corrupt", "empty")
    assert error_of(heard["cut off.m4a"])["code"] in ("corrupt", "not_audio", "empty")


async def test_a_page_that_only_the_resolver_plays_says_so_wherever_it_fails(node: RunningNode) -> None:
    async with MediaServer() as server:
        page = server.serve("/watch", media(b"<!doctype html><html></html>", content_type="text/html; charset=utf-8"))
        heard = await hear_to_end(node, "p", page)
        explained = await node.request("GET", f"/v0/loadtracks?explain=true&identifier={page}")
        listed = await node.request("GET", f"/v0/loadplaylist?identifier={page}")
        await create(node, "q", page)
        pictured = await node.request("GET", "/v0/players/q/artwork")
    error = error_of(heard)
    assert (error["code"], error["stage"]) == ("not_audio", "decode")
    assert refusal(listed) == (400, "load_failed")
    told = [error["hint"], explained.json()["error"]["hint"], listed.json()["message"], pictured.json()["message"]]
    assert all("resolver.enabled" in text for text in told), told


async def test_a_link_without_its_scheme_says_what_to_write(node: RunningNode) -> None:
    heard = await hear_all(node, {name: name for name in ("radio.example/live.mp3", "music/live.mp3")})
    hints = [error_of(story)["hint"] for story in heard.values()]
    assert "write https://radio.example/live.mp3." in hints[0]
    assert "https" not in hints[1]
    answer = await node.request("POST", "/v0/players", {"id": "q", "uri": "localhost:8000/live.mp3"})
    assert refusal(answer) == (400, "bad_request")
    assert "write http://localhost:8000/live.mp3." in answer.json()["message"]

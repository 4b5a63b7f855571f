"""Servers that keep a running node waiting: they are given up in time, and nobody else notices."""

import asyncio
import time
from pathlib import Path

import pytest

from tests.support.audio_files import music, pcm_of, wav
from tests.support.e2e_players import PATIENT, create, enqueue, hear_to_end
from tests.support.e2e_sockets import listening
from tests.support.eventually import eventually
from tests.support.media_server import Answer, MediaServer, media, stall
from tests.support.radio_server import fall_silent, radio
from tests.support.running_node import running_node

START_TIMEOUT_S = 3
EMPTY_LIVE_PLAYLIST = b"#EXTM3U\n#EXT-X-TARGETDURATION:60\n#EXT-X-MEDIA-SEQUENCE:1\n"

# What a server does, and the stage in which the node waits then.
STALLS: dict[str, tuple[Answer, str]] = {
    "no answer": (stall(), "connect"),
    "a station that sends nothing": (radio(b"x", stop_after=0, ends_by=fall_silent), "read"),
    "a file that sends nothing": (media(b"x" * 100_000, stall_after=0), "read"),
    "a live playlist without a segment": (
        media(EMPTY_LIVE_PLAYLIST, content_type="application/vnd.apple.mpegurl"),
        "read",
    ),
}


@pytest.mark.timing
async def test_what_never_starts_is_told_given_up_and_the_next_track_plays(tmp_path: Path) -> None:
    sound = music(1.0)
    config = f"{PATIENT}[sources]\nstart_timeout_s = {START_TIMEOUT_S}\n"
    async with (
        MediaServer() as server,
        running_node(tmp_path, config, variables={"TONEARM_LOGGING__LEVEL": "debug"}) as node,
    ):
        song = server.serve("/song.wav", media(wav(sound)))
        uris = [server.serve(f"/{number}", answer) for number, (answer, _) in enumerate(STALLS.values())]
        await create(node, "other", song)
        for _ in range(20):
            await enqueue(node, "other", song)
        async with listening(node, "other") as other:
            begun_s = time.monotonic()
            all_heard = await asyncio.gather(
                *(hear_to_end(node, f"p{number}", uri, song) for number, uri in enumerate(uris))
            )
            frames = round((time.monotonic() - begun_s) * 50)
            await other.frames_heard(min(frames, 900))
            assert pcm_of(sound) * (len(other.pcm) // len(pcm_of(sound))) in other.pcm
        for (name, (_, stage)), heard in zip(STALLS.items(), all_heard, strict=True):
            stuck, exception, end, *rest = (event for event in heard.events if event["op"].startswith("Track"))
            assert [event["op"] for event in (stuck, exception, end)] == ["TrackStuck", "TrackException", "TrackEnd"], (
                name
            )
            assert stuck["thresholdMs"] == START_TIMEOUT_S * 1000 // 3
            assert stuck["cause"], name
            error = exception["error"]
            assert (error["code"], error["stage"]) == ("timeout", stage), (name, error)
            assert "sources.start_timeout_s" in error["hint"], name
            assert 1500 < exception["time"] - stuck["time"] < 5000, name
            assert [event["op"] for event in rest] == ["TrackStart", "TrackEnd"], name
            assert heard.pcm == pcm_of(sound), name
        silent = server.url("/2")
        await node.request("GET", "/v0/loadtracks?identifier=/no/such/file.mp3")
        last = "cannot be loaded: /no/such/file.mp3: "
        await eventually(lambda: any(last in line for line in node.log), "the node's whole log is there")
        log = "".join(node.log)
        assert f"player p2 created: {silent}" in log
        assert f"player p2: track started: {song}" in log
        assert "raise sources.start_timeout_s" in log
        assert "player p2: a listener came; 1 listen (pcm)" in log
        assert f"player p2 created: {silent} (asked for by 127.0.0.1)" in log
        assert "player p2 deleted (asked for by 127.0.0.1)" in log

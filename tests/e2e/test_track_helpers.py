"""loadtracks, decodetrack and decodetracks, and what players show of their tracks, against a whole node."""

import asyncio
import base64
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from lavalink.utils import decode_track as decode_as_client

from tests.support.audio_files import flac, mp3, music, opus, wav
from tests.support.eventually import eventually
from tests.support.http_client import connected
from tests.support.media_server import MediaServer, media, stall
from tests.support.running_node import RunningNode, running_node

CLOSE = "Connection: close\r\n"  # the node keeps connections for the next request, unless the server does not


async def test_files_of_several_formats(node: RunningNode) -> None:
    sound, sound_44k = music(1.0), music(1.0, 44_100)
    tags = {"title": "Söng 😀", "artist": "Bänd"}
    for name, content, probe_name in (
        ("song.mp3", mp3(sound_44k, tags={**tags, "TSRC": "USS1Z9900001"}), "mp3"),
        ("song.flac", flac(sound, tags={**tags, "ISRC": "USS1Z9900001"}), "flac"),
        ("song.webm", opus(sound, container="webm", tags=tags), "matroska/webm"),
        ("song with no tags.wav", wav(sound), "wav"),
    ):
        path = node.folder / name
        path.write_bytes(content)
        loaded = (await node.request("GET", f"/v0/loadtracks?identifier={quote(str(path), safe='')}")).json()
        assert loaded["loadType"] == "track"
        track, info = loaded["data"], loaded["data"]["info"]
        assert info["identifier"] == info["uri"] == str(path)
        assert info["length"] == pytest.approx(1000, abs=60)
        assert info["sourceName"] == "file"
        assert (info["isSeekable"], info["isStream"], info["position"]) == (True, False, 0)
        assert (track["pluginInfo"], track["userData"]) == ({}, {})
        has_tags = "no tags" not in name
        assert (info["title"], info["author"]) == (("Söng 😀", "Bänd") if has_tags else ("song with no tags", ""))
        assert info["isrc"] == ("USS1Z9900001" if name in ("song.mp3", "song.flac") else None)
        # The published client reads from `encoded` what `info` says.
        seen = decode_as_client(track["encoded"])
        assert (seen.title, seen.author, seen.identifier) == (info["title"], info["author"], info["identifier"])
        assert (seen.uri, seen.artwork_url, seen.isrc) == (info["uri"], info["artworkUrl"], info["isrc"])
        assert (seen.stream, seen.position, seen.duration) == (False, 0, info["length"])
        assert seen.source_name == "local"
        # Neither base64 nor the client knows the name otherwise: it is the last text before the position.
        assert base64.b64decode(track["encoded"])[:-8].endswith(probe_name.encode())
        decoded = await node.request("GET", f"/v0/decodetrack?encodedTrack={quote(track['encoded'], safe='')}")
        assert decoded.json() == track


async def test_everything_is_closed_after_loading_and_when_a_client_leaves(tmp_path: Path) -> None:
    song = mp3(music(1.0, 44_100))
    (tmp_path / "song.mp3").write_bytes(song)
    async with MediaServer() as server, running_node(tmp_path) as node:
        url = server.serve("/song.mp3", media(song, headers=CLOSE))
        broken = server.serve("/text", media(b"no sound " * 10_000, headers=CLOSE))

        async def load(identifier: str) -> Any:
            return (await node.request("GET", f"/v0/loadtracks?identifier={identifier}")).json()["loadType"]

        await asyncio.gather(load("song.mp3"), load(url))
        await server.all_gone()
        assert len(await node.decoders_ready(3)) == 3  # The one for players, its spare, and the one that plays nothing.
        before = node.open_descriptors()
        loaded = await asyncio.gather(*map(load, ("song.mp3", url, broken, "/nothing") * 10))
        assert loaded == ["track", "track", "empty", "empty"] * 10
        for answer in (stall(), media(song, stall_after=100)) * 3:
            stuck = server.serve("/stuck", answer)
            async with connected(node.port) as connection:
                connection.send_request("GET", f"/v0/loadtracks?identifier={stuck}")
                await server.requested(len(server.requests) + 1)
            await server.all_gone()
        await eventually(lambda: node.open_descriptors() <= before, "everything closed again")

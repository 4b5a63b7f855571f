"""loadtracks, decodetrack and decodetracks, and what players show of their tracks, against a whole node."""

import asyncio
import base64
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from lavalink.utils import decode_track as decode_as_client

from tests.support.audio_files import flac, m4a, mp3, music, opus, wav
from tests.support.eventually import eventually
from tests.support.http_client import connected
from tests.support.media_server import MediaServer, media, stall
from tests.support.running_node import RunningNode, running_node

SOUND = music(3.0)
TAGS = {"title": "Söng 😀", "artist": "Bänd"}
EMPTY = {"loadType": "empty", "data": {}}
CLOSE = "Connection: close\r\n"  # the node keeps connections for the next request, unless the server does not


@cache
def files() -> Mapping[str, tuple[bytes, str]]:
    """Name to content, and to the container's name in `encoded`."""
    sound, sound_44k = music(3.0), music(3.0, 44_100)
    return {
        "song.mp3": (mp3(sound_44k, tags={**TAGS, "TSRC": "USS1Z9900001"}), "mp3"),
        "song.flac": (flac(sound, tags={**TAGS, "ISRC": "USS1Z9900001"}), "flac"),
        "song.opus": (opus(sound, tags={**TAGS, "ISRC": "USS1Z9900001"}), "ogg"),
        "song.webm": (opus(sound, container="webm", tags=TAGS), "matroska/webm"),
        "song.m4a": (m4a(sound_44k, tags=TAGS), "mp4"),
        "song with no tags.wav": (wav(sound), "wav"),
    }


async def load(node: RunningNode, identifier: str) -> Any:
    """What loadtracks answers, which is always 200 unless the node's policy is against it."""
    answer = await node.request("GET", f"/v0/loadtracks?identifier={quote(identifier, safe='')}")
    assert answer.status == 200, answer.body
    return answer.json()


async def load_track(node: RunningNode, identifier: str) -> Any:
    loaded = await load(node, identifier)
    assert loaded["loadType"] == "track"
    return loaded["data"]


async def decode(node: RunningNode, encoded: str) -> Any:
    return (await node.request("GET", f"/v0/decodetrack?encodedTrack={quote(encoded, safe='')}")).json()


def require_client_agrees(track: Any, probe_name: str | None = None) -> None:
    """The published client reads from `encoded` what `info` says."""
    info, seen = track["info"], decode_as_client(track["encoded"])
    assert (seen.title, seen.author, seen.identifier) == (info["title"], info["author"], info["identifier"])
    assert (seen.uri, seen.artwork_url, seen.isrc) == (info["uri"], info["artworkUrl"], info["isrc"])
    assert (seen.stream, seen.position) == (info["isStream"], 0)
    assert seen.duration == ((1 << 63) - 1 if info["isStream"] else info["length"])
    assert seen.source_name == {"file": "local"}.get(info["sourceName"], info["sourceName"])
    if probe_name is not None:
        # Neither base64 nor the client knows the name otherwise: it is the last text before the position.
        assert base64.b64decode(track["encoded"])[:-8].endswith(probe_name.encode())


async def test_files_of_several_formats(node: RunningNode) -> None:
    for name, (content, probe_name) in files().items():
        path = node.folder / name
        path.write_bytes(content)
        track = await load_track(node, str(path))
        info = track["info"]
        assert info["identifier"] == info["uri"] == str(path)
        assert info["length"] == pytest.approx(3000, abs=60)
        assert info["sourceName"] == "file"
        assert (info["isSeekable"], info["isStream"], info["position"]) == (True, False, 0)
        assert (track["pluginInfo"], track["userData"]) == ({}, {})
        if name == "song with no tags.wav":
            assert (info["title"], info["author"], info["isrc"]) == ("song with no tags", "", None)
        else:
            assert (info["title"], info["author"]) == ("Söng 😀", "Bänd")
        if name in ("song.mp3", "song.flac", "song.opus"):
            assert info["isrc"] == "USS1Z9900001"
        require_client_agrees(track, probe_name)
        assert await decode(node, track["encoded"]) == track


async def test_everything_is_closed_after_loading(tmp_path: Path) -> None:
    song = tmp_path / "song.flac"
    song.write_bytes(files()["song.flac"][0])
    async with MediaServer() as server, running_node(tmp_path) as node:
        url = server.serve("/song.mp3", media(files()["song.mp3"][0], headers=CLOSE))
        broken = server.serve("/text", media(b"no sound " * 10_000, headers=CLOSE))
        await asyncio.gather(load(node, str(song)), load(node, url))
        await server.all_gone()
        assert len(await node.decoders_ready(3)) == 3  # The one for players, its spare, and the one that plays nothing.
        before = node.open_descriptors()
        loaded = await asyncio.gather(*(load(node, uri) for uri in (str(song), url, broken, "/nothing") * 10))
        assert [one["loadType"] for one in loaded] == ["track", "track", "empty", "empty"] * 10
        await server.all_gone()
        await eventually(lambda: node.open_descriptors() <= before, "everything closed again")


async def test_a_client_that_leaves_ends_its_load(node: RunningNode) -> None:
    song, _ = files()["song.mp3"]
    async with MediaServer() as server:
        await load_track(node, server.serve("/song.mp3", media(song, headers=CLOSE)))
        await node.decoders_ready(3)
        before = node.open_descriptors()
        for answer in (stall(), media(song, stall_after=100)) * 3:
            url = server.serve("/stuck", answer)
            async with connected(node.port) as connection:
                connection.send_request("GET", f"/v0/loadtracks?identifier={url}")
                await server.requested(len(server.requests) + 1)
            await server.all_gone()
        await eventually(lambda: node.open_descriptors() <= before, "everything closed again")

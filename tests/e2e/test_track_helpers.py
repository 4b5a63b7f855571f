"""loadtracks and decodetrack against a whole node."""

import base64
from urllib.parse import quote

import pytest
from lavalink.utils import decode_track as decode_as_client

from tests.support.audio_files import flac, mp3, music, opus, wav
from tests.support.running_node import RunningNode


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

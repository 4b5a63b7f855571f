"""Playlists through a whole node: asked for by a client, or found out when they are opened."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote_from_bytes

import pytest

from tests.support.audio_files import music, pcm_of, wav
from tests.support.eventually import eventually
from tests.support.media_server import MediaServer, media, once_set, stall
from tests.support.node_in_process import Listening, listening, loaded, padded, queue_of, state_of
from tonearm.core.errors import BadRequest, PlayerExists, PlayerNotFound
from tonearm.core.failure import PlayFailure
from tonearm.core.track_info import TrackInfo
from tonearm.node.node import Node
from tonearm.node.tracks import WantedTrack


def serve_songs(server: MediaServer, *names: str, seconds: float = 0.2) -> bytes:
    """Serves `/<name>.wav` for each; returns what is heard of them one after the other."""
    songs = [music(seconds, seed=number) for number, _ in enumerate(names)]
    for name, song in zip(names, songs, strict=True):
        server.serve(f"/{name}.wav", media(wav(song), content_type="audio/wav"))
    return b"".join(map(pcm_of, songs))


def serve_list(server: MediaServer, path: str, *lines: str) -> str:
    return server.serve(path, media("\n".join(["#EXTM3U", *lines]).encode(), content_type="audio/x-mpegurl"))


def queued_names(node: Node) -> list[str]:
    return [track.info.identifier.rpartition("/")[2] for track in node.player("p").queue.tracks]


async def test_create_with_a_playlist(node: Node, server: MediaServer) -> None:
    pcm = serve_songs(server, "a", "b", "c")
    await node.create_player("p", serve_list(server, "/list.m3u", "#EXTINF:3,Song A", "a.wav", "b.wav", "c.wav"), {})
    assert queued_names(node) == ["b.wav", "c.wav"]
    assert state_of(node, "p")["track"]["info"]["title"] == "Song A"
    player = Listening(node, "p")
    await player.wait_state("idle")
    assert player.starts == ["Song A", "b", "c"]
    assert player.listener.pcm == padded(pcm)


async def test_a_playlist_known_only_when_it_is_opened(node: Node, server: MediaServer) -> None:
    """The entries take its place, and are joined without a gap."""
    pcm = serve_songs(server, "a", "b", "c", "d")
    uri = serve_list(server, "/tune-in?of=b", "#EXTINF:1,B", "b.wav", "c.wav")
    player = await listening(node, "p", server.url("/a.wav"), uri, server.url("/d.wav"))
    await player.wait_state("idle")
    assert player.starts == ["a", "B", "c", "d"]
    assert [reason for _, reason in player.ends] == ["finished"] * 4
    assert player.listener.pcm == padded(pcm)
    assert player.failures == []


async def test_a_part_of_a_playlist_is_refused_when_it_is_known_to_be_one(node: Node, server: MediaServer) -> None:
    serve_songs(server, "a", "b")
    player = await listening(node, "p", server.url("/a.wav"))
    at_once, later = (serve_list(server, path, "b.wav") for path in ("/list.m3u", "/tune-in"))
    with pytest.raises(BadRequest, match="the source is a playlist"):
        await node.enqueue("p", WantedTrack(at_once, start_ms=100), {})
    await node.enqueue("p", WantedTrack(later, end_ms=100), {})
    await player.wait_state("failed")
    assert (player.starts, player.failures) == (["a"], ["not_audio"])
    assert "the source is a playlist" in state_of(node, "p")["error"]["message"]


async def test_files_of_a_list_from_another_machine_and_names_that_are_no_utf_8(node: Node, tmp_path: Path) -> None:
    """They play, have titles, and are the same tracks by what the answers say of them."""
    songs = [music(0.2, seed=number) for number in range(2)]
    (tmp_path / "CD 1").mkdir()
    for name, song in zip((b"CD 1/02 x.wav", b"CD 1/f\xfcr.wav"), songs, strict=True):
        (tmp_path / os.fsdecode(name)).write_bytes(wav(song))
    sheet = tmp_path / os.fsdecode(b"l\xefste.m3u")
    sheet.write_bytes(b"C:\\Music\\CD 1\\02 X.flac\nCD%201\\f\xfcr.wav\n")
    uri = f"file://{quote_from_bytes(os.fsencode(sheet))}"
    player = await listening(node, "p", uri)
    await player.wait_state("idle")
    assert (player.starts, player.failures) == (["02 x", "für"], [])
    assert player.listener.pcm == padded(b"".join(map(pcm_of, songs)))
    assert state_of(node, "p")["track"]["info"]["uri"].endswith("/CD%201/f%FCr.wav")
    assert isinstance(await loaded(node, uri), TrackInfo)


PLS, XSPF, ASX = "audio/x-scpls", "application/xspf+xml", "video/x-ms-asf"
FORMS: Mapping[str, tuple[str, str, str]] = {
    "m3u": ("#EXTM3U\n", "{}\n", "audio/x-mpegurl"),
    "pls": ("[playlist]\n", "File{number}={}\n", PLS),
    "xspf": ("<playlist><trackList>", "<track><location>{}</location></track>", XSPF),
    "asx": ('<ASX VERSION="3.0">', '<Entry><Ref HREF="{}"/></Entry>', ASX),
}
ENDS = {"xspf": "</trackList></playlist>", "asx": "</ASX>"}


def serve_form(server: MediaServer, form: str, path: str, *links: str) -> str:
    head, line, kind = FORMS[form]
    body = head + "".join(line.format(link, number=number) for number, link in enumerate(links, 1))
    return server.serve(path, media((body + ENDS.get(form, "")).encode(), content_type=kind))


@pytest.mark.parametrize(
    ("outer", "inner", "name"),
    [
        ("m3u", "pls", "in.pls"),  # what directories of stations give: VLC and mpv play all of these
        ("m3u", "pls", "tune-in?id=1"),
        ("asx", "asx", "in.asx"),
        ("pls", "xspf", "in"),
    ],
)
async def test_a_list_of_lists(node: Node, server: MediaServer, outer: str, inner: str, name: str) -> None:
    pcm = serve_songs(server, "a", "b", "c")
    serve_form(server, inner, f"/{name}", "b.wav", "c.wav")
    uri = serve_form(server, outer, f"/out.{outer}", "a.wav", name)
    player = await listening(node, "p", uri)
    await player.wait_state("idle")
    assert (player.starts, player.failures) == (["a", "b", "c"], [])
    assert player.listener.pcm == padded(pcm)
    only = serve_form(server, outer, "/only", name)
    info = await loaded(node, only)
    assert isinstance(info, TrackInfo)
    assert info.uri == server.url("/b.wav")


@pytest.mark.parametrize("ending", ["", ".m3u"])
@pytest.mark.parametrize(
    ("lists", "told"),
    [
        ({"self": "self"}, "leads back to itself"),
        ({"self": "b", "b": "self"}, "leads back to itself"),
        ({"self": "b", "b": "c", "c": "d"}, "two levels deep"),
    ],
)
async def test_what_does_not_end_is_told(
    node: Node, server: MediaServer, ending: str, lists: dict[str, str], told: str
) -> None:
    serve_songs(server, "a")
    for name, inner in lists.items():
        serve_list(server, f"/{name}{ending}", f"{inner}{ending}", *["a.wav"] * (name == "self"))
    player = await listening(node, "p", server.url(f"/self{ending}"))
    await player.wait_state("idle")
    assert (player.starts, player.failures) == (["a"], ["limit_exceeded"])
    failure = player.events.named("TrackException")[0]["error"]
    assert told in f"{failure['message']} {failure['hint']}"
    serve_list(server, f"/self{ending}", f"{lists['self']}{ending}")
    answer = await loaded(node, server.url(f"/self{ending}"))
    assert isinstance(answer, PlayFailure)
    assert told in f"{answer.message} {answer.hint}"


async def test_an_id_is_taken_while_its_playlist_is_fetched(node: Node, server: MediaServer) -> None:
    uri = server.serve("/list.m3u", stall())
    creating = asyncio.create_task(node.create_player("p", uri, {}))
    await server.requested(1)
    with pytest.raises(PlayerExists):
        await node.create_player("p", server.url("/other.wav"), {})
    with pytest.raises(PlayerNotFound):
        node.player("p")
    creating.cancel()
    await asyncio.wait([creating])
    await node.create_player("p", server.url("/other.wav"), {})


async def test_a_player_deleted_while_a_playlist_is_fetched_for_it(node: Node, server: MediaServer) -> None:
    await node.create_player("p", server.url("/a.wav"), {})
    answers = asyncio.Event()
    late = once_set(answers, media(b"#EXTM3U\na.wav\nb.wav"))
    enqueuing = asyncio.create_task(node.enqueue("p", server.serve("/list.m3u", late), {}))
    await eventually(lambda: "/list.m3u" in [request.path for request in server.requests], "the playlist is asked for")
    await node.delete_player("p")
    await node.create_player("p", server.url("/a.wav"), {})
    answers.set()
    with pytest.raises(PlayerNotFound):
        await enqueuing
    assert queue_of(node, "p") == []


async def test_loadtracks_answers_the_first_entry_that_can_be_played(node: Node, server: MediaServer) -> None:
    serve_songs(server, "a", "b")
    uri = serve_list(server, "/list.m3u", "missing.wav", "list.m3u", "#EXTINF:1,Song A", "a.wav", "b.wav")
    info = await loaded(node, uri)
    assert isinstance(info, TrackInfo)
    assert info.title == "Song A"
    assert (info.identifier, info.uri) == (uri, server.url("/a.wav"))
    assert info.length_ms == 200
    for nothing in (("missing.wav",), ("list2.m3u",)):
        assert isinstance(await loaded(node, serve_list(server, "/list2.m3u", *nothing)), PlayFailure)

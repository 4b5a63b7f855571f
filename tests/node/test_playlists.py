"""Playlists through a whole node: asked for by a client, or found out when they are opened."""

import asyncio

import pytest

from tests.support.audio_files import music, pcm_of, wav
from tests.support.eventually import eventually
from tests.support.media_server import MediaServer, media, once_set, stall
from tests.support.node_in_process import Listening, listening, loaded, padded, state_of
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


async def test_entries_take_the_place_of_a_playlist_that_is_known_at_once_or_only_when_it_is_opened(
    node: Node, server: MediaServer
) -> None:
    """They are joined without a gap."""
    pcm = serve_songs(server, "a", "b", "c", "d", "e")
    await node.create_player("p", serve_list(server, "/list.m3u", "#EXTINF:3,Song A", "a.wav", "b.wav"), {})
    assert queued_names(node) == ["b.wav"]
    assert state_of(node, "p")["track"]["info"]["title"] == "Song A"
    await node.enqueue("p", serve_list(server, "/tune-in?of=c", "#EXTINF:1,C", "c.wav", "d.wav"), {})
    await node.enqueue("p", server.url("/e.wav"), {})
    player = Listening(node, "p")
    await player.wait_state("idle")
    assert player.starts == ["Song A", "b", "C", "d", "e"]
    assert [reason for _, reason in player.ends] == ["finished"] * 5
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


async def test_a_list_of_lists(node: Node, server: MediaServer) -> None:
    """As directories of stations give: VLC and mpv play all of these."""
    pcm = serve_songs(server, "a", "b", "c", "d")
    xspf = b"<playlist><trackList><track><location>c.wav</location></track></trackList></playlist>"
    server.serve("/in", media(xspf, content_type="application/xspf+xml"))
    asx = b'<ASX VERSION="3.0"><Entry><Ref HREF="d.wav"/></Entry></ASX>'
    server.serve("/in.asx", media(asx, content_type="video/x-ms-asf"))
    pls = b"[playlist]\nFile1=b.wav\n"
    server.serve("/tune-in?id=1", media(pls, content_type="audio/x-scpls"))
    player = await listening(node, "p", serve_list(server, "/out.m3u", "a.wav", "tune-in?id=1", "in", "in.asx"))
    await player.wait_state("idle")
    assert (player.starts, player.failures) == (["a", "b", "c", "d"], [])
    assert player.listener.pcm == padded(pcm)
    info = await loaded(node, serve_list(server, "/only", "tune-in?id=1"))
    assert isinstance(info, TrackInfo)
    assert info.uri == server.url("/b.wav")


@pytest.mark.parametrize(
    ("ending", "lists", "told"),
    [
        ("", {"self": "b", "b": "self"}, "leads back to itself"),
        (".m3u", {"self": "self"}, "leads back to itself"),
        ("", {"self": "b", "b": "c", "c": "d"}, "two levels deep"),
        (".m3u", {"self": "b", "b": "c", "c": "d"}, "two levels deep"),
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
    assert queued_names(node) == []


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

"""What waits: playlists, asked for by a client or found out when they are opened, and titles and lengths that are read
ahead."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from tests.support.audio_files import mp3, music, pcm_of, wav
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.fetching import QUICK
from tests.support.media_server import MediaServer, media, once_set, stall, status
from tests.support.node_in_process import Listening, listening, loaded, padded, running_node, state_of
from tests.support.planted_faults import OUR_FAULT, tags_not_taken_in
from tests.support.radio_server import radio
from tests.support.resolving import fake_sites, told
from tests.support.shelf import Shelf
from tonearm.core.errors import BadRequest, PlayerExists, PlayerNotFound
from tonearm.core.failure import PlayFailure
from tonearm.core.playback_requests import Requests
from tonearm.core.track_info import TrackInfo
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings
from tonearm.node.tracks import WantedTrack
from tonearm.protocol.rendering import queued_track_details_out

SETTINGS = NodeSettings(decoder_processes=1, first_listener_wait_ms=60_000)
PATIENT = replace(QUICK, headers_timeout_s=PATIENCE_S, stall_timeout_s=PATIENCE_S)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_node() -> AsyncIterator[Node]:
    async with running_node(SETTINGS, resolver=fake_sites()) as node:
        yield node


def serve_songs(server: MediaServer, *names: str) -> bytes:
    """Serves `/<name>.wav` for each; returns what is heard of them one after the other."""
    songs = [music(0.2, seed=number) for number, _ in enumerate(names)]
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


async def playing(node: Node, shelf: Shelf, player_id: str, *waiting: str) -> None:
    await node.create_player(player_id, shelf.song(30.0)[0], {})
    for uri in waiting:
        await node.enqueue(player_id, uri, {})


def a_second(server: MediaServer, name: str) -> str:
    return server.serve(f"/{name}.wav", media(wav(music(1.0)), headers="Connection: close\r\n"))


def waiting(node: Node, player_id: str = "p") -> Any:
    return [queued_track_details_out(track) for track in node.player(player_id).queue.tracks]


async def read(node: Node, count: int, player_id: str = "p") -> Any:
    """The queue, once so many of its tracks have a length."""
    await eventually(
        lambda: len([track for track in waiting(node, player_id) if "length" in track]) == count,
        lambda: f"{count} lengths; {waiting(node, player_id)}",
    )
    return waiting(node, player_id)


async def test_the_next_ones_show_their_titles(node: Node, server: MediaServer, shelf: Shelf) -> None:
    song = server.serve("/a.mp3", media(mp3(music(2.0, 44_100), tags={"title": "Söng", "artist": "Bänd"})))
    await playing(node, shelf, "p", song, server.url("/gone.mp3"), *(a_second(server, str(n)) for n in range(5)))
    listed = await read(node, 4)
    assert (listed[0]["title"], listed[0]["author"]) == ("Söng", "Bänd")
    assert abs(listed[0]["length"] - 2000) < 100
    assert (listed[1]["title"], "length" in listed[1]) == ("gone", False)
    assert [track.get("length") for track in listed[2:]] == [1000, 1000, 1000, None, None]
    # When one leaves, the next one comes near.
    node.player("p").do(Requests.remove, listed[0]["id"])
    listed = await read(node, 4)
    assert [track.get("length") for track in listed] == [None, 1000, 1000, 1000, 1000, None]
    assert len([request for request in server.requests if request.path == "/gone.mp3"]) == 1


async def test_pages_say_their_titles_ahead_and_nothing_is_opened_expanded_searched_or_tuned_in(
    node: Node, server: MediaServer, shelf: Shelf
) -> None:
    song, cover = a_second(server, "song"), server.url("/cover.png")
    server.serve("/api/told", told(song, duration=61.5, uploader="Someone", thumbnail=cover))
    server.serve("/api/told?2", status(404))
    uris = (
        server.url("/fake/told?2"),
        f"fakesearch:{server.port} x",
        server.serve("/live", radio(mp3(music(1.0, 44_100)))),
        server.serve("/list", media(b"#EXTM3U\nsong.wav\n", content_type="audio/x-mpegurl")),
        server.url("/fake/told"),
        song,
    )
    await playing(node, shelf, "p", *uris[:5])
    listed = await read(node, 1)
    assert listed[4] == {
        **listed[4], "title": "A title", "author": "Someone", "length": 61_500, "artworkUrl": cover, "uri": uris[4],
    }  # fmt: skip
    node.player("p").do(Requests.remove, listed[0]["id"])
    await node.enqueue("p", song, {})
    listed = await read(node, 2)
    assert [track.get("length") for track in listed] == [None, None, None, 61_500, 1000]
    paths = [request.path for request in server.requests]
    assert [path for path in paths if path.startswith("/api/")] == ["/api/told?2", "/api/told"]
    assert paths.index("/song.wav") > paths.index("/api/told")


async def test_players_go_before_titles_at_the_resolver(server: MediaServer, shelf: Shelf) -> None:
    song = a_second(server, "song")
    server.serve("/api/told", told(song, duration=61.5))
    server.serve("/api/told?1", stall())
    resolver = fake_sites(pages_at_once=2, timeout_s=PATIENCE_S)
    async with running_node(SETTINGS, PATIENT, resolver=resolver) as node:
        await node.create_player("busy", server.url("/fake/told?1"), {})
        await server.requested(1)
        await playing(node, shelf, "p", server.url("/fake/told"))
        await playing(node, shelf, "q", song)
        await read(node, 1, "q")  # who waits for the resolver holds nobody up
        assert [request.path for request in server.requests if request.path.startswith("/api/")] == ["/api/told?1"]
        await node.delete_player("busy")
        await read(node, 1, "p")


async def test_what_plays_and_what_clients_load_go_on(node: Node, server: MediaServer, shelf: Shelf) -> None:
    player = await listening(node, "p", shelf.song(30.0)[0], server.serve("/silent.mp3", stall()))
    await server.requested(1)
    assert isinstance(await asyncio.wait_for(loaded(node, shelf.song(1.0)[0]), 10), TrackInfo)
    await player.more_frames(50)
    player.require_no_underrun()


async def test_many_players_take_turns(node: Node, server: MediaServer, shelf: Shelf) -> None:
    for name in "pq":
        await playing(node, shelf, name, *(a_second(server, f"{name}{number}") for number in range(3)))
    await asyncio.gather(read(node, 3, "p"), read(node, 3, "q"))
    assert sorted({request.path[1] for request in server.requests[:2]}) == ["p", "q"]


async def test_an_error_of_our_own_about_one_track_leaves_the_others_to_be_read(
    node: Node, server: MediaServer, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    with tags_not_taken_in("p"):
        for name in "pq":
            await playing(node, shelf, name, a_second(server, name))
        async with asyncio.timeout(PATIENCE_S):
            await node.queue_details_known("p", 0, 1, 2 * PATIENCE_S)
        await read(node, 1, "q")
    assert OUR_FAULT in caplog.text


async def test_where_none_is_to_be_read_a_playlists_own_lengths_are_shown(server: MediaServer, shelf: Shelf) -> None:
    text = b"#EXTM3U\n#EXTINF:62,Gone\ngone.mp3\n#EXTINF:-1,Live\nlive.mp3\nplain.mp3\n"
    uri = server.serve("/list.m3u", media(text, content_type="audio/x-mpegurl"))
    async with running_node(NodeSettings(decoder_processes=1, tags_ahead=0)) as node:
        player = await listening(node, "p", shelf.song(30.0)[0], uri)
        await player.more_frames(50)
        listed = waiting(node)
    assert [track.get("length") for track in listed] == [62_000, None, None]
    assert [track["title"] for track in listed] == ["Gone", "Live", "plain"]
    assert [request.path for request in server.requests] == ["/list.m3u"]

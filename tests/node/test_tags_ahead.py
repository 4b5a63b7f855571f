"""Titles and lengths of waiting tracks, read ahead by a whole node."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from tests.support.audio_files import mp3, music, wav
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.fetching import QUICK
from tests.support.media_server import MediaServer, media, stall, status
from tests.support.node_in_process import listening, loaded, running_node
from tests.support.planted_faults import OUR_FAULT, tags_not_taken_in
from tests.support.radio_server import radio
from tests.support.resolving import fake_sites, told
from tests.support.shelf import Shelf
from tonearm.core.playback_requests import Requests
from tonearm.core.track_info import TrackInfo
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings
from tonearm.protocol.rendering import queued_track_details_out

SETTINGS = NodeSettings(decoder_processes=1, first_listener_wait_ms=60_000)
PATIENT = replace(QUICK, headers_timeout_s=PATIENCE_S, stall_timeout_s=PATIENCE_S)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_node() -> AsyncIterator[Node]:
    async with running_node(SETTINGS, resolver=fake_sites()) as node:
        yield node


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

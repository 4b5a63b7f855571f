"""Titles and lengths of waiting tracks, read ahead by a whole node."""

import asyncio
import gc
import weakref
from dataclasses import replace
from typing import Any

import pytest

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
    await node.create_player("p", shelf.song(30.0)[0], {})
    song = mp3(music(2.0, 44_100), tags={"title": "Söng", "artist": "Bänd"})
    await node.enqueue("p", server.serve("/a.mp3", media(song)), {})
    await node.enqueue("p", server.url("/gone.mp3"), {})
    for number in range(5):
        await node.enqueue("p", server.serve(f"/{number}.wav", media(wav(music(1.0)))), {})
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


async def test_a_playlists_own_lengths_are_shown_at_once(server: MediaServer, shelf: Shelf) -> None:
    text = b"#EXTM3U\n#EXTINF:62,Gone\ngone.mp3\n#EXTINF:-1,Live\nlive.mp3\nplain.mp3\n"
    uri = server.serve("/list.m3u", media(text, content_type="audio/x-mpegurl"))
    async with running_node(NodeSettings(decoder_processes=1, tags_ahead=0)) as node:
        await node.create_player("p", shelf.song(30.0)[0], {})
        await node.enqueue("p", uri, {})
        listed = waiting(node)
    assert [track.get("length") for track in listed] == [62_000, None, None]
    assert [track["title"] for track in listed] == ["Gone", "Live", "plain"]


async def test_the_tags_of_a_playlists_entry_replace_what_it_says(server: MediaServer, shelf: Shelf) -> None:
    song = mp3(music(2.0, 44_100), tags={"title": "Song", "artist": "Band"})
    server.serve("/a.mp3", media(song))
    text = b"#EXTM3U\n#EXTINF:62,Band - Song\na.mp3\n"
    uri = server.serve("/list.m3u", media(text, content_type="audio/x-mpegurl"))
    async with running_node(SETTINGS) as node:
        await node.create_player("p", shelf.song(30.0)[0], {})
        await node.enqueue("p", uri, {})
        await eventually(lambda: waiting(node)[0].get("author") == "Band", lambda: f"{waiting(node)}")
        (track,) = waiting(node)
    assert track["title"] == "Song"
    assert abs(track["length"] - 2000) < 100


async def test_pages_say_their_titles_ahead_and_no_sound_is_opened(server: MediaServer, shelf: Shelf) -> None:
    song = server.serve("/song.wav", media(wav(music(1.0))))
    cover = server.url("/cover.png")
    server.serve("/api/told", told(song, duration=61.5, uploader="Someone", thumbnail=cover))
    server.serve("/api/told?2", status(404))
    async with running_node(SETTINGS, resolver=fake_sites()) as node:
        await node.create_player("p", shelf.song(30.0)[0], {})
        for uri in (server.url("/fake/told?2"), server.url("/fake/told"), song):
            await node.enqueue("p", uri, {})
        gone, page, file = await read(node, 2)
        shown = {name: page[name] for name in ("title", "author", "length", "artworkUrl", "uri")}
        assert shown == {
            "title": "A title", "author": "Someone", "length": 61_500, "artworkUrl": cover,
            "uri": server.url("/fake/told"),
        }  # fmt: skip
        assert ("length" in gone, file["length"]) == (False, 1000)
        paths = [request.path for request in server.requests]
        assert (paths.count("/api/told"), paths.count("/api/told?2")) == (1, 1)
        assert paths.index("/song.wav") > paths.index("/api/told")


async def test_players_go_before_titles_at_the_resolver(server: MediaServer, shelf: Shelf) -> None:
    song = server.serve("/song.wav", media(wav(music(1.0))))
    server.serve("/api/told", told(song, duration=61.5))
    server.serve("/api/told?1", stall())
    resolver = fake_sites(pages_at_once=2, timeout_s=PATIENCE_S)
    async with running_node(SETTINGS, PATIENT, resolver=resolver) as node:
        await node.create_player("busy", server.url("/fake/told?1"), {})
        await server.requested(1)
        await node.create_player("p", shelf.song(30.0)[0], {})
        await node.enqueue("p", server.url("/fake/told"), {})
        await node.create_player("q", shelf.song(30.0)[0], {})
        await node.enqueue("q", song, {})
        await read(node, 1, "q")  # who waits for the resolver holds nobody up
        assert [request.path for request in server.requests if request.path.startswith("/api/")] == ["/api/told?1"]
        await node.delete_player("busy")
        await read(node, 1, "p")


async def test_nothing_is_expanded_searched_or_tuned_in_ahead(server: MediaServer, shelf: Shelf) -> None:
    song = server.serve("/song.wav", media(wav(music(1.0))))
    async with running_node(SETTINGS, resolver=fake_sites()) as node:
        await node.create_player("p", shelf.song(30.0)[0], {})
        uris = (
            f"fakesearch:{server.port} x",
            server.serve("/live", radio(mp3(music(1.0, 44_100)))),
            server.serve("/list", media(b"#EXTM3U\nsong.wav\n", content_type="audio/x-mpegurl")),
            song,
        )
        for uri in uris:
            await node.enqueue("p", uri, {})
        listed = await read(node, 1)
        assert [track.get("length") for track in listed] == [None, None, None, 1000]
        assert not [request for request in server.requests if request.path.startswith("/api/")]


async def test_what_plays_and_what_clients_load_go_on(server: MediaServer, shelf: Shelf) -> None:
    async with running_node(SETTINGS) as node:
        player = await listening(node, "p", shelf.song(30.0)[0], server.serve("/silent.mp3", stall()))
        await server.requested(1)
        assert isinstance(await asyncio.wait_for(loaded(node, shelf.song(1.0)[0]), 10), TrackInfo)
        await player.more_frames(50)
        player.require_no_underrun()
        await node.delete_player("p")


async def test_many_players_take_turns(server: MediaServer, shelf: Shelf) -> None:
    async with running_node(SETTINGS) as node:
        for name in ("p", "q"):
            await node.create_player(name, shelf.song(30.0)[0], {})
            for number in range(3):
                song = server.serve(f"/{name}{number}.wav", media(wav(music(1.0)), headers="Connection: close\r\n"))
                await node.enqueue(name, song, {})
        await asyncio.gather(read(node, 3, "p"), read(node, 3, "q"))
        order = list(dict.fromkeys(request.path[1] for request in server.requests[:2]))
        assert sorted(order) == ["p", "q"]


async def test_an_error_of_our_own_about_one_track_leaves_the_others_to_be_read(
    server: MediaServer, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_node(SETTINGS) as node:
        for name in ("p", "q"):
            await node.create_player(name, shelf.song(30.0)[0], {})
        with tags_not_taken_in("p"):
            for name in ("p", "q"):
                await node.enqueue(name, server.serve(f"/{name}.wav", media(wav(music(1.0)))), {})
            async with asyncio.timeout(PATIENCE_S):
                await node.queue_details_known("p", 0, 1, 2 * PATIENCE_S)
            await read(node, 1, "q")
    assert OUR_FAULT in caplog.text


async def test_none_is_read_where_that_is_configured(server: MediaServer, shelf: Shelf) -> None:
    async with running_node(NodeSettings(decoder_processes=1, tags_ahead=0)) as node:
        player = await listening(node, "p", shelf.song(30.0)[0], server.serve("/a.wav", media(wav(music(1.0)))))
        await player.more_frames(50)
        assert server.requests == []
        await node.delete_player("p")


async def test_a_deleted_player_is_not_kept_until_its_tags_would_have_been_read(
    server: MediaServer, shelf: Shelf
) -> None:
    song, _ = shelf.song(30.0)
    async with running_node(SETTINGS, PATIENT) as node:
        await node.create_player("p", song, {})
        await node.enqueue("p", server.serve("/never.wav", stall()), {})
        await server.requested(1)
        await node.create_player("q", song, {})
        await node.enqueue("q", song, {})
        await node.enqueue("q", server.url("/waits.wav"), {})
        deleted = weakref.ref(node.player("q"))
        await node.delete_player("q")
        await eventually(lambda: gc.collect() >= 0 and deleted() is None, "the player is freed")
        assert node._players["p"].unread_track(1) is not None, "the first one is still being read"

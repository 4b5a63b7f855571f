"""Lengths that are counted for players that nobody hears, beside what clients ask a node for."""

import asyncio

import pytest

from tests.node.test_sleep import asleep
from tests.support.audio_files import mp3, music
from tests.support.eventually import eventually
from tests.support.node_in_process import loaded, running_node
from tests.support.shelf import Shelf
from tonearm.core.track_info import TrackInfo
from tonearm.decoder.messages import Want
from tonearm.decoder.opening.track_loader import TrackLoader
from tonearm.node.parts import NodeSettings

PLAYERS = 40


async def test_many_files_are_counted_in_the_end_and_no_client_waits_for_them(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = mp3(music(30.0, 44_100), options={"write_xing": "0", "id3v2_version": "0"})
    counts_go_on = asyncio.Event()
    counts_begun, counts_ended = [], []
    open_now = TrackLoader._open

    async def open_when_told(loader: TrackLoader, uri, pool, open_source, want=Want.FACTS):  # type: ignore[no-untyped-def]
        if want is not Want.LENGTH:
            return await open_now(loader, uri, pool, open_source, want)
        counts_begun.append(uri)
        try:
            await counts_go_on.wait()
            return await open_now(loader, uri, pool, open_source, want)
        finally:
            counts_ended.append(uri)

    monkeypatch.setattr(TrackLoader, "_open", open_when_told)
    async with running_node(NodeSettings(decoder_processes=1, first_listener_wait_ms=0)) as node:
        players = [f"p{number}" for number in range(PLAYERS)]
        for player in players:
            await node.create_player(player, shelf.put(f"{player}.mp3", bare * 4), {})
        await eventually(lambda: counts_begun, "the first file is being counted")
        songs = [shelf.song(1.0)[0] for _ in range(8)]
        found = await asyncio.gather(*(loaded(node, song) for song in songs))
        assert all(isinstance(one, TrackInfo) for one in found), found
        assert not counts_ended, "a client waited for them"
        counts_go_on.set()
        await asleep(node, *players)
        assert len(counts_begun) == PLAYERS

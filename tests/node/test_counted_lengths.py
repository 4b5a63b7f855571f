"""Lengths that are counted for players that nobody hears, beside what clients ask a node for."""

import asyncio
from typing import Any

from tests.node.test_sleep import asleep
from tests.support.audio_files import mp3, music
from tests.support.decoder_forks import QuickStarts
from tests.support.eventually import eventually
from tests.support.node_in_process import loaded, running_node
from tests.support.sandboxing import SANDBOX
from tests.support.shelf import Shelf
from tonearm.core.opened_source import OpenedSource, ReportWait
from tonearm.core.play_queue import Playlist
from tonearm.core.source_uri import SourceUri
from tonearm.core.track_info import SourceFacts, TrackInfo
from tonearm.decoder.messages import Want
from tonearm.decoder.opening.source_input import OpenUri
from tonearm.decoder.opening.track_loader import TrackLoader
from tonearm.decoder.pool.on_demand import OnDemandPool
from tonearm.decoder.pool.starting import DirectStarter
from tonearm.node.parts import NodeParts, NodeSettings

PLAYERS = 40


async def test_many_files_are_counted_in_the_end_and_no_client_waits_for_them(shelf: Shelf) -> None:
    bare = mp3(music(30.0, 44_100), options={"write_xing": "0", "id3v2_version": "0"})
    counts_go_on = asyncio.Event()
    counts_begun, counts_ended = [], []

    class CountsWhenTold(TrackLoader):
        async def load_in_background(
            self, uri: SourceUri, open_source: OpenUri, want: Want = Want.FACTS
        ) -> SourceFacts:
            async def open_when_told(uri: SourceUri, report_wait: ReportWait) -> OpenedSource | Playlist:
                counts_begun.append(uri)
                await counts_go_on.wait()
                return await open_source(uri, report_wait)

            try:
                return await super().load_in_background(uri, open_when_told, want)
            finally:
                counts_ended.append(uri)

    def parts(usual: NodeParts) -> dict[str, Any]:
        pool = OnDemandPool(1024, sandbox=usual.sandbox, starter=DirectStarter(1024, SANDBOX, QuickStarts()))
        return {"loader": CountsWhenTold(usual.suspects.open_uncounted, usual.suspects.add, pool)}

    settings = NodeSettings(decoder_processes=1, first_listener_wait_ms=0, tags_ahead=0)
    async with running_node(settings, parts=parts) as node:
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

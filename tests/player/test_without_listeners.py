"""A player that nobody listens to goes on in silence, at no cost for filters, and is heard again at once."""

from pathlib import Path

import pytest

from tests.support.audio_files import music, pcm_of, wav
from tests.support.node_in_process import running_node
from tests.support.sinks import MemoryEventClient, MemoryListener
from tonearm.core.frame import FRAME_BYTES
from tonearm.node.node import NodeSettings


@pytest.mark.parametrize("first_leaves", [False, True])
async def test_a_listener_that_comes_late_hears_the_place_where_the_player_is(
    tmp_path: Path, first_leaves: bool
) -> None:
    signal = music(2.0)
    path = tmp_path / "song.wav"
    path.write_bytes(wav(signal))
    pcm = pcm_of(signal)
    settings = NodeSettings(decoder_processes=1, first_listener_wait_ms=1000 if first_leaves else 0)
    async with running_node(settings) as node:
        await node.create_player("p", str(path), {})
        events = MemoryEventClient()
        node.player("p").subscribe(events, since=None, wants_snapshot=False)
        if first_leaves:
            first = MemoryListener()
            leave = node.player("p").attach(first)
            assert await first.wait_frames(5) == pcm[: 5 * FRAME_BYTES]
            leave()
        await events.wait_for("TrackStart")
        late = MemoryListener()
        node.player("p").attach(late)
        await events.wait_for("TrackEnd", reason="finished")
        # Every frame from some place on to the end, none of them doubled or lost.
        place = pcm.find(late.pcm[:FRAME_BYTES])
        assert place >= 0
        assert late.pcm == pcm[place:]
        quality = node.player("p").status().quality
        assert (quality.frames_sent, quality.underruns) == (100, 0)

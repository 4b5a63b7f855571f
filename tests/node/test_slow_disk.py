"""A file on a disk that stops answering, on a running node."""

import asyncio
from pathlib import Path

from tests.support.audio_files import music, pcm_of, wav
from tests.support.decoder_forks import QuickStarts
from tests.support.node_in_process import listening, padded, running_node, with_pool
from tests.support.shelf import Shelf
from tests.support.slow_disk import SlowDisk
from tonearm.decoder.pool.process import Timeouts
from tonearm.node.parts import NodeSettings
from tonearm.sandbox.report import SandboxMode


async def test_a_slow_disk_delays_only_its_own_player(shelf: Shelf, tmp_path: Path) -> None:
    disk = SlowDisk(tmp_path)
    # Without a sandbox: the pretended disk looks at its files.
    settings = NodeSettings(decoder_processes=1, decoder_sandbox=SandboxMode.OFF)
    # The disk stalls for three times as long as a decoder process may give no sign.
    timeouts = Timeouts(ping_interval_s=0.2, silence_limit_s=1.0)
    start = QuickStarts(interpreter=disk.interpreter)
    parts = with_pool(mode=SandboxMode.OFF, start=start, timeouts=timeouts)
    slow_song, song = music(5.0), music(4.5, seed=2)
    slow_uri = shelf.put("slow.wav", wav(slow_song))
    slow_path = Path(slow_uri)
    size_bytes = len(wav(slow_song))
    async with running_node(settings, parts=parts) as node:
        disk.stall(slow_path, first_byte=size_bytes // 2)
        slow = await listening(node, "slow", slow_uri)
        others = [await listening(node, f"p{n}", shelf.put(f"{n}.wav", wav(song))) for n in range(5)]
        process = slow.quality["decoderProcess"]
        assert {player.quality["decoderProcess"] for player in others} == {process}
        await slow.listener.wait_frames(100)
        await asyncio.sleep(3.0)
        assert len(slow.listener.pcm) < len(pcm_of(slow_song))
        disk.answer()
        await asyncio.gather(*(player.wait_state("idle") for player in (slow, *others)))
        for player in others:
            assert player.listener.pcm == padded(pcm_of(song))
            player.require_no_underrun()
        assert slow.listener.pcm == padded(pcm_of(slow_song))
        assert node._pool.process_ids_in_use == [process]
        assert slow.failures == []

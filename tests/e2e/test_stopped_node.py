"""A node that the system lets stand still: stopped, starved, or held up by a call that blocks."""

import asyncio
import signal
import time
from pathlib import Path

from tests.support.audio_files import music, pcm_of, wav
from tests.support.e2e_players import PATIENT, create, state
from tests.support.e2e_sockets import listening
from tests.support.running_node import running_node
from tonearm.core.frame import FRAME_BYTES, FRAME_MS
from tonearm.player.clock import CATCH_UP_FRAMES


async def test_after_a_standstill_the_sound_goes_on_where_it_was_without_a_burst(tmp_path: Path) -> None:
    sound = music(20.0)
    (tmp_path / "song.wav").write_bytes(wav(sound))
    async with running_node(tmp_path, PATIENT) as node:
        await create(node, "p", "song.wav")
        async with listening(node, "p") as ear:
            await ear.frames_heard(50)
            before = (await node.request("GET", "/v0/stats")).json()
            node.process.send_signal(signal.SIGSTOP)
            begin_s = time.monotonic()
            await asyncio.sleep(1.0)
            stood_still_s = time.monotonic() - begin_s
            node.process.send_signal(signal.SIGCONT)
            heard = len(ear.pcm) // FRAME_BYTES
            await ear.frames_heard(heard + 50)
            after = (await node.request("GET", "/v0/stats")).json()
            heard = len(ear.pcm) // FRAME_BYTES
            now = await state(node, "p")
            assert now["position"] >= heard * FRAME_MS
            await ear.frames_heard(now["position"] // FRAME_MS)  # it counts what was sent, and nothing else
        left_out = after["framesLeftOut"] - before["framesLeftOut"]
        # What is left out is not made up for: at most the frames of 200 ms come at once.
        assert left_out >= stood_still_s * 1000 / FRAME_MS - CATCH_UP_FRAMES - 2
        assert after["timesRunDry"]["clock"] > before["timesRunDry"]["clock"]
        assert after["framesLate"]["over100ms"] > before["framesLate"]["over100ms"]
        assert ear.pcm == pcm_of(sound)[: len(ear.pcm)]  # nothing is missing in the sound itself
        assert now["quality"]["framesLostByListeners"] == 0

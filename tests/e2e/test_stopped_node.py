"""A node that the system lets stand still: stopped, starved, or held up by a call that blocks; or whose log nobody
reads."""

import asyncio
import re
import signal
import time
from pathlib import Path

from tests.support.audio_files import music, pcm_of, tone, wav
from tests.support.e2e_players import PATIENT, create, refusal, state
from tests.support.e2e_sockets import listening
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.running_node import running_node
from tonearm.core.frame import FRAME_BYTES, FRAME_MS
from tonearm.player.clock import CATCH_UP_FRAMES


async def test_after_a_standstill_the_sound_goes_on_where_it_was_without_a_burst(tmp_path: Path) -> None:
    sound = music(10.0)
    (tmp_path / "song.wav").write_bytes(wav(sound))
    async with running_node(tmp_path, f"[server]\nmax_load = 0.1\n{PATIENT}") as node:
        await create(node, "p", "song.wav")
        async with listening(node, "p") as ear:
            await ear.frames_heard(50)
            before = (await node.request("GET", "/v0/stats")).json()
            node.process.send_signal(signal.SIGSTOP)
            begin_s = time.monotonic()
            await asyncio.sleep(1.5)
            stood_still_s = time.monotonic() - begin_s
            node.process.send_signal(signal.SIGCONT)
            # A node that is late creates no more players, where that is asked for.
            answer = await node.request("POST", "/v0/players", {"id": "second", "uri": "song.wav"})
            assert refusal(answer) == (429, "limit_reached")
            assert "server.max_load" in answer.json()["message"]
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


async def test_a_log_that_nobody_reads_stops_no_sound_and_is_there_when_it_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(wav(tone(440, 60.0)))
    async with running_node(tmp_path, PATIENT + '[logging]\nlevel = "debug"\n') as node:
        await create(node, "p", "song.wav")
        async with listening(node, "p") as ear:
            await ear.frames_heard(10)
            async with asyncio.timeout(PATIENCE_S):
                with node.unread_log():
                    for number in range(100):
                        assert (await node.request("GET", f"/v0/players/missing-{number:02}-")).status == 404
                    await ear.more_frames(50)
            assert (await node.request("GET", "/v0/players/missing-last-")).status == 404
            await eventually(lambda: "missing-last-" in node.log[-1], "the last line")
        with node.unread_log():  # nor does it hold up the end
            node.process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(node.process.wait) == 0
    told = [found[1] for line in node.log if (found := re.search(r"/v0/players/missing-(\w+)-", line))]
    assert told == [*(f"{number:02}" for number in range(100)), "last"]

"""A track at which the node itself meets an error costs that track: no process ends, nobody else loses a frame."""

from pathlib import Path

import numpy as np

from tests.support.audio_files import flac, opus, pcm_of, wav
from tests.support.e2e_players import PATIENT, at_rest, create, enqueue, order, state
from tests.support.e2e_sockets import following, listening
from tests.support.hostile import Hostile
from tests.support.node_in_process import explained_underruns
from tests.support.processes import WaitForCpu
from tests.support.running_node import running_node


async def test_a_track_that_the_node_cannot_handle_costs_itself(tmp_path: Path) -> None:
    noise = np.random.default_rng(20).uniform(-0.5, 0.5, (48_000 * 2, 2))
    whole = np.tile(noise, (20, 1))
    for name in ("breaks.wav", "breaks too.wav", "good.wav"):
        (tmp_path / name).write_bytes(wav(noise))
    (tmp_path / "breaks.opus").write_bytes(opus(noise))
    (tmp_path / "steady.flac").write_bytes(flac(whole))
    hostile = Hostile(tmp_path / "hostile")
    config = PATIENT + "[decoder]\nprocesses = 1\n"
    async with running_node(tmp_path, config, variables=hostile.variables) as node:
        processes = await node.decoders_ready(2)
        node.expected_tracebacks = 1  # each error is logged with its traceback once
        await create(node, "steady", "steady.flac")
        wait = WaitForCpu(node.pid, *node.decoder_pids())
        async with listening(node, "steady") as steady:
            await steady.frames_heard(10)
            await create(node, "p", "breaks.wav")
            await enqueue(node, "p", "good.wav")
            await enqueue(node, "p", "breaks too.wav")
            await enqueue(node, "p", "breaks.opus")
            async with following(node, "p", "?since=0") as tape, listening(node, "p") as ear:
                error = (await tape.until("TrackException"))["error"]
                assert (error["code"], error["stage"]) == ("internal", "decode")
                assert "LookupError: samples that nobody has" in error["message"]
                assert await at_rest(tape) == "failed"
                ends = [event["reason"] for event in tape.events if event["op"] == "TrackEnd"]
                assert ends == ["loadFailed", "finished", "loadFailed"]
                assert pcm_of(noise) in ear.pcm  # what lies between them is whole
                assert ear.pcm.startswith(pcm_of(noise)[: 48_000 * 4])  # and what was heard before
                await order(node, "p", "play")  # a failed player goes on, here with a track of packets
                assert await at_rest(tape) == "failed"
                await enqueue(node, "p", "good.wav")
                assert await at_rest(tape) == "idle"
            assert processes <= node.decoder_pids()  # beside them there is one that reads tags ahead
            now = await state(node, "steady")
            assert now["quality"]["framesLostByListeners"] == 0
            waited_s = wait.seconds(node.pid, *node.decoder_pids())
            assert now["quality"]["timesRunDry"] <= explained_underruns(waited_s)
            assert steady.pcm == pcm_of(whole)[: len(steady.pcm)]
            assert len(steady.pcm) > 48_000 * 4 * 5

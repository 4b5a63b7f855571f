"""Tracks at which the node itself meets an error, and those whose bytes end decoder processes: each costs itself, with
an error that says so, and nobody else loses a frame."""

from pathlib import Path

import numpy as np

from tests.support.audio_files import flac, opus, pcm_of, wav
from tests.support.e2e_players import PATIENT, at_rest, create, enqueue, order, state
from tests.support.e2e_sockets import following, listening
from tests.support.eventually import eventually
from tests.support.hostile import DEADLY, Hostile
from tests.support.node_in_process import explained_underruns
from tests.support.processes import WaitForCpu
from tests.support.running_node import running_node


async def test_a_track_that_cannot_be_handled_or_ends_each_process_costs_itself(tmp_path: Path) -> None:
    noise = np.random.default_rng(20).uniform(-0.5, 0.5, (48_000 * 2, 2))
    for name, content in (
        ("breaks.wav", wav(noise)),
        ("breaks too.wav", wav(noise)),
        ("good.wav", wav(noise)),
        ("breaks.opus", opus(noise)),
        ("deadly.wav", wav(noise[:9600]) + DEADLY),
        ("steady.flac", flac(np.tile(noise, (20, 1)))),
    ):
        (tmp_path / name).write_bytes(content)
    hostile = Hostile(tmp_path / "hostile")
    config = PATIENT + "[decoder]\nprocesses = 1\n"
    async with running_node(tmp_path, config, variables=hostile.variables) as node:
        processes = await node.decoders_ready(2)
        node.expected_tracebacks = 1  # each error is logged with its traceback once
        await create(node, "steady", "steady.flac", loop="track")  # however long the quarantine takes
        wait = WaitForCpu(node.pid, *node.decoder_pids())
        async with listening(node, "steady") as steady:
            await steady.frames_heard(10)
            await create(node, "p", "breaks.wav")
            for uri in ("good.wav", "breaks too.wav", "breaks.opus"):
                await enqueue(node, "p", uri)
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
            assert len(steady.pcm) > 48_000 * 4 * 5

            def has_seen_all_ends() -> bool:
                return sum("SIGSEGV" in line for line in node.log) == 3

            # It stays so for whoever asks, and in whatever way it is written.
            for player, uri in (("bad", "deadly.wav"), ("again", f"file://{tmp_path}/./deadly.wav")):
                await create(node, player, uri)
                async with following(node, player, "?since=0") as tape, listening(node, player):
                    assert (await tape.until("TrackException"))["error"]["code"] == "quarantined"
                    await tape.until("TrackEnd", reason="loadFailed")
                await eventually(has_seen_all_ends, "two processes ended among players, and one alone")
            # What was played in the same processes is as good as before.
            await steady.more_frames(10)
            once = pcm_of(noise)
            assert steady.pcm == (once * (len(steady.pcm) // len(once) + 1))[: len(steady.pcm)]

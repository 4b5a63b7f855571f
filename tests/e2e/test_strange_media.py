"""Files with strange numbers, played in every way on a node beside two players whose listeners notice nothing.

For some seconds; the variables say otherwise (`make fuzz`): FUZZ_SEED is the first seed, FUZZ_SEEDS how many of them,
FUZZ_SECONDS for how long.
"""

import asyncio
import itertools
import os
import time
from pathlib import Path

import aiohttp
import numpy as np

from tests.support.audio_files import opus, pcm_of, tone, wav
from tests.support.e2e_players import create, state
from tests.support.e2e_sockets import following_all
from tests.support.examples import SEED
from tests.support.media_server import MediaServer
from tests.support.node_in_process import BUFFER_S
from tests.support.opus_listening import decoded
from tests.support.processes import WaitForCpu
from tests.support.running_node import running_node
from tests.support.strange.ears import SocketEar, socket_ear
from tests.support.strange.stories import GOOD_FILE, GOOD_HZ, Story
from tonearm.core.frame import FRAME_BYTES

COUNT = int(os.environ["FUZZ_SEEDS"]) if os.environ.get("FUZZ_SEEDS") else None
SECONDS = float(os.environ.get("FUZZ_SECONDS") or 6)
AT_ONCE = 4
QUIETEST = 3000.0  # of a frame of the steady tone, root of the mean square in 16-bit units


async def test_strange_files_cost_nobody_else_anything(tmp_path: Path) -> None:
    steady = tone(500, 4)
    for name, content in (
        (GOOD_FILE, wav(tone(GOOD_HZ, 2.0))),
        ("steady.wav", wav(steady)),
        ("steady.opus", opus(steady)),
    ):
        (tmp_path / name).write_bytes(content)
    async with (
        MediaServer() as server,
        running_node(tmp_path, "[decoder]\nprocesses = 2\n") as node,
        aiohttp.ClientSession() as session,
        following_all(node) as tape,
    ):
        processes = await node.decoders_ready(2)
        for kind in ("wav", "opus"):
            await create(node, kind, f"steady.{kind}", loop="track")
        async with (
            socket_ear(session, node, "wav") as pcm,
            socket_ear(session, node, "opus", "format=opus") as packets,
        ):
            await asyncio.gather(pcm.more_frames(25), packets.more_frames(25))
            wait = WaitForCpu(node.pid, *processes)
            begun_s = time.monotonic()
            stories: list[Story] = []
            failures: list[str] = []
            checking = asyncio.Lock()
            checked_lines = checked_events = 0
            sounding: dict[str, str] = {}  # by player: the track that has begun and not ended

            async def check() -> None:
                """Nobody but who plays strange files may have noticed anything, no error is the node's own, and each
                track that starts ends before another one starts."""
                nonlocal checked_lines, checked_events
                log, checked_lines = "".join(node.log[checked_lines:]), len(node.log)
                assert "Traceback" not in log, log
                assert processes <= node.decoder_pids(), f"a decoder process has ended:\n{log}"
                events, checked_events = tape.events[checked_events:], len(tape.events)
                for event in events:
                    player = event["id"]
                    assert event.get("error", {}).get("code") != "internal", event
                    if event["op"] == "TrackStart":
                        assert player not in sounding, f"{event} begins before {sounding[player]} has ended"
                        sounding[player] = event["trackId"]
                    elif event["op"] == "TrackEnd" and player in sounding:
                        assert event["trackId"] == sounding.pop(player), event
                async with checking:
                    await asyncio.to_thread(check_steady, pcm, packets, pcm_of(steady))

            async def tell_one_after_the_other() -> None:
                for seed in seeds:
                    if failures or (time.monotonic() - begun_s > SECONDS if COUNT is None else seed >= SEED + COUNT):
                        return
                    story = Story(node, server, session, seed, pcm.more_frames)
                    stories.append(story)
                    try:
                        await story.play()
                        await check()
                    except (AssertionError, aiohttp.ClientError, OSError) as error:
                        again = f"make fuzz SEED={seed} SEEDS=1"
                        failures.append(f"seed {seed}: {error}\n{story}\nAgain: {again}")

            seeds = itertools.count(SEED)
            await asyncio.gather(*(tell_one_after_the_other() for _ in range(AT_ONCE)))
            assert not failures, "\n\n".join(failures)
            qualities = [(await state(node, player))["quality"] for player in ("wav", "opus")]
            # They never ran dry, but for what the machine made them wait.
            underruns, waited_s = sum(one["timesRunDry"] for one in qualities), wait.seconds(node.pid, *processes)
            assert not any(one["framesLostByListeners"] for one in qualities)
            assert underruns <= waited_s / BUFFER_S, f"{underruns} underruns, waited {waited_s:.1f} s"
            frames, passed = (sum(getattr(story, name) for story in stories) for name in ("frames", "passed_frames"))
            print(  # noqa: T201 - what a long run did
                f"{len(stories)} seeds from {SEED} on: {time.monotonic() - begun_s:.0f} s; {frames} frames heard, "
                f"{passed} of them passed through; {pcm.checked_frames + packets.checked_frames} of the steady "
                f"listeners, none lost; {underruns} underruns of theirs while the node waited for {waited_s:.1f} s"
            )
            assert frames


def check_steady(pcm: SocketEar, packets: SocketEar, whole: bytes) -> None:
    for frame in pcm.check():
        at = frame.position_us * 48 // 1000 * 4 % len(whole)
        expected = (whole + whole)[at : at + FRAME_BYTES]
        assert frame.payload == expected, f"the steady PCM is not what it should be at {frame.position_us} µs"
    fresh = [frame.payload for frame in packets.check()]
    if len(fresh) > 2:
        loudness = np.sqrt(np.mean(decoded(fresh).reshape(-1, 960 * 2) ** 2, axis=1))[2:]
        assert loudness.min() > QUIETEST, f"the steady Opus has a hole: {loudness.round()}"

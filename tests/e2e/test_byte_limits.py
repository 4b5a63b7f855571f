"""Limits in bytes, each reached on a running node: metadata, what waits, events that are kept, lists."""

from pathlib import Path

import pytest

from tests.support.audio_files import music, wav
from tests.support.e2e_players import IMPATIENT, create, enqueue, patch, refusal, state
from tests.support.e2e_sockets import listening
from tests.support.http_client import connected
from tests.support.node_in_process import BUFFER_S
from tests.support.processes import WaitForCpu
from tests.support.running_node import RunningNode, running_node
from tonearm.core.frame import FRAMES_PER_SECOND

LIMIT_BYTES = 64 * 1024
LISTENER_MAY_LAG_S = 0.1  # so much waits in the kernel


def sized(size_bytes: int) -> dict[str, str]:
    """Metadata of this length as JSON."""
    return {"x": "y" * (size_bytes - len('{"x":""}'))}


async def test_metadata_ends_at_64_kib_whichever_way_it_comes(node: RunningNode) -> None:
    body = {"id": "q", "uri": "x.wav", "metadata": sized(LIMIT_BYTES + 1)}
    answer = await node.request("POST", "/v0/players", body)
    assert refusal(answer) == (400, "bad_request")
    assert str(LIMIT_BYTES) in answer.json()["message"]
    assert str(LIMIT_BYTES + 1) in answer.json()["message"]
    assert "player.max_metadata_bytes" in answer.json()["message"]
    await create(node, "p", "x.wav", metadata=sized(LIMIT_BYTES))
    answer = await node.request("PATCH", "/v0/players/p/metadata", {"value": {"z": 1}})
    assert refusal(answer) == (400, "bad_request")
    assert str(LIMIT_BYTES + len(',"z":1')) in answer.json()["message"]
    answer = await node.request("PATCH", "/v0/players/p/metadata", {"merge": False, "value": [1] * 40_000})
    assert refusal(answer) == (400, "bad_request")
    assert (await state(node, "p"))["metadata"] == sized(LIMIT_BYTES)
    await patch(node, "p", "metadata", {"value": {"x": None, "z": 1}})
    assert (await state(node, "p"))["metadata"] == {"z": 1}
    answer = await node.request("POST", "/v0/players/p/queue", {"uri": "x.wav", "metadata": sized(LIMIT_BYTES + 1)})
    assert refusal(answer) == (400, "bad_request")
    fat = {"uri": "x.wav", "metadata": sized(LIMIT_BYTES + 1)}
    answer = await node.request("POST", "/v0/players/p/queue", {"tracks": [{"uri": "x.wav"}, fat]})
    assert refusal(answer) == (400, "bad_request")
    assert answer.json()["message"].startswith("Track 1 ")
    assert refusal(await node.request("PUT", "/v0/players/p/track", fat)) == (400, "bad_request")
    assert (await state(node, "p"))["queueLength"] == 0
    await enqueue(node, "p", "x.wav", sized(LIMIT_BYTES))


@pytest.mark.timing
async def test_fat_players_are_listed_and_nobody_listening_misses_a_frame(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(wav(music(5.0)))
    async with running_node(tmp_path, IMPATIENT) as node:
        await create(node, "heard", "song.wav")
        await patch(node, "heard", "loop", {"mode": "track"})
        async with listening(node, "heard") as ear:
            await ear.frames_heard(50)
            wait = WaitForCpu(node.pid, *node.decoder_pids())
            for number in range(40):
                await create(node, f"fat{number}", "x.wav", metadata=[1] * 32_000)
                await enqueue(node, f"fat{number}", "x.wav", [[]] * 20_000)
            async with connected(node.port, receive_buffer_bytes=4096) as deaf:
                deaf.send_request("GET", "/v0/players")  # and never reads
                for _ in range(3):
                    # Not `node.request`, which checks every value: the listener in this process would have to wait.
                    async with connected(node.port) as reading:
                        reading.send(b"GET /v0/players HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                        listed = await reading.read_to_end()
                        assert len(listed) > 4_000_000
                        assert listed.endswith(b"1\r\n]\r\n0\r\n\r\n")
            answer = await node.request("PATCH", "/v0/players/heard/filters", {"eq": [1] * 49_000})
            assert refusal(answer) == (400, "bad_request")
            answer = await node.request("PATCH", "/v0/players/heard/metadata", {"value": [[]] * 200_000})
            assert refusal(answer) == (413, "body_too_large")
            await ear.more_frames(50)
        quality = (await state(node, "heard"))["quality"]
        # Nothing, unless the machine itself let the node, its decoders and this listener wait for so long.
        by_the_machine_s = wait.seconds(node.pid, *node.decoder_pids())
        assert quality["framesLostByListeners"] <= max(0.0, by_the_machine_s - LISTENER_MAY_LAG_S) * FRAMES_PER_SECOND
        assert quality["timesRunDry"] <= by_the_machine_s / BUFFER_S

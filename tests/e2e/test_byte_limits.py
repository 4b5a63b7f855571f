"""Limits in bytes, each reached on a running node: metadata, what waits, events that are kept, lists."""

from tests.support.e2e_players import create, enqueue, patch, refusal, state
from tests.support.running_node import RunningNode

LIMIT_BYTES = 64 * 1024


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

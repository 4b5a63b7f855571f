"""What tests say to the players of a running node, and whole stories that are told more than once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.support.e2e_sockets import EventFields, Tape, following, listening
from tests.support.eventually import eventually
from tests.support.http_client import Answer
from tests.support.running_node import RunningNode

# A player that waits for its listener as long as a slow machine needs to connect it.
PATIENT = "[player]\nfirst_listener_wait_ms = 60000\n"

# A player that does not wait.
IMPATIENT = "[player]\nfirst_listener_wait_ms = 0\n"


async def create(node: RunningNode, player: str, uri: str, **more: object) -> None:
    answer = await node.request("POST", "/v0/players", {"id": player, "uri": uri, **more})
    assert (answer.status, answer.json()["id"]) == (201, player)


async def enqueue(node: RunningNode, player: str, uri: str, metadata: object = None) -> str:
    """The id of the new track."""
    body = {"uri": uri, "metadata": {} if metadata is None else metadata}
    answer = await node.request("POST", f"/v0/players/{player}/queue", body)
    assert answer.status == 201, answer.body
    track_id = answer.json()["trackId"]
    assert isinstance(track_id, str)
    return track_id


async def order(node: RunningNode, player: str, *orders: str) -> None:
    """`play`, `pause`, `skip`, one after the other."""
    for name in orders:
        await done(node, "POST", f"/v0/players/{player}/{name}")


async def patch(node: RunningNode, player: str, what: str, body: object) -> None:
    """A change of `loop`, `filters` or `metadata`."""
    await done(node, "PATCH", f"/v0/players/{player}/{what}", body)


async def delete(node: RunningNode, player: str) -> None:
    await done(node, "DELETE", f"/v0/players/{player}")


async def done(node: RunningNode, method: str, target: str, body: object = None) -> None:
    """A change that answers 204 with nothing."""
    answer = await node.request(method, target, body)
    assert (answer.status, answer.body) == (204, b""), answer.body


async def state(node: RunningNode, player: str) -> Any:
    answer = await node.request("GET", f"/v0/players/{player}")
    assert answer.status == 200
    return answer.json()


async def until_state(node: RunningNode, player: str, holds: Callable[[Any], object]) -> Any:
    """The state of a player as soon as `holds` is true of it."""
    now: Any = None

    async def has_it() -> object:
        nonlocal now
        now = await state(node, player)
        return holds(now)

    await eventually(has_it, lambda: f"another state of {player}; it is {now}")
    return now


async def waiting_uris(node: RunningNode, player: str) -> list[str]:
    answer = await node.request("GET", f"/v0/players/{player}/queue")
    assert answer.status == 200
    return [entry["uri"] for entry in answer.json()]


def refusal(answer: Answer) -> tuple[int, str]:
    """Status and code of an answer that is an error; its other fields must be as promised."""
    error = answer.json()
    assert set(error) == {"timestamp", "status", "error", "code", "message", "path", "requestId"}
    assert error["status"] == answer.status
    assert error["message"].endswith(".")
    assert "?" not in error["path"]
    return answer.status, error["code"]


class Heard(NamedTuple):
    """What clients of a player got from its first frame to its end."""

    pcm: bytes
    events: Sequence[EventFields]

    @property
    def codes(self) -> list[str]:
        """Of its exceptions."""
        return [event["error"]["code"] for event in self.events if event["op"] == "TrackException"]


async def hear_to_end(node: RunningNode, player: str, *uris: str) -> Heard:
    """Plays `uris` in a new player until it is idle or failed, and deletes it. For a `PATIENT` node.

    All frames are here when the audio socket is closed: they come before the close.
    """
    await create(node, player, uris[0])
    for uri in uris[1:]:
        await enqueue(node, player, uri)
    async with following(node, player, "?since=0") as tape, listening(node, player) as ear:
        await at_rest(tape)
        await delete(node, player)
        assert (await tape.closed(), await ear.closed()) == (1000, 1000)
        return Heard(ear.pcm, tape.events)


async def at_rest(tape: Tape) -> str:
    """Waits until the player is idle or failed, and tells which."""
    while True:
        event = await tape.until("PlayerUpdate")
        if event["state"] in ("idle", "failed"):
            return str(event["state"])


async def hear_all(node: RunningNode, uris: dict[str, str]) -> dict[str, Heard]:
    """Plays each URI in a player of its own, all at the same time. Names are those of `uris`."""
    heard = await asyncio.gather(*(hear_to_end(node, f"p{number}", uri) for number, uri in enumerate(uris.values())))
    return dict(zip(uris, heard, strict=True))

"""What every verb does in every state of a player: its status, the events it leads to, and what the player is then.

A track `a` is selected and `b` waits, where the state allows it; `c` is what a request brings.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Final

import pytest

from tests.support.audio_files import tone, wav
from tests.support.e2e_players import create, done, enqueue, order, state, until_state
from tests.support.e2e_sockets import Tape, following_all, listening, summary
from tests.support.eventually import eventually
from tests.support.media_server import MediaServer, stall
from tests.support.running_node import RunningNode

VERBS: Final[Mapping[str, tuple[str, str, object]]] = {
    "play": ("POST", "/play", None),
    "pause": ("POST", "/pause", None),
    "skip": ("POST", "/skip", None),
    "seek": ("PATCH", "/position", {"position": 5000}),
    "stop": ("DELETE", "/track", None),
    "replace": ("PUT", "/track", {"uri": "c.wav"}),
    "enqueue": ("POST", "/queue", {"uri": "c.wav"}),
    "clear": ("DELETE", "/queue", None),
    "shuffle": ("POST", "/queue/shuffle", None),
    "previous": ("POST", "/previous", None),
    "loop": ("PATCH", "/loop", {"mode": "track"}),
    "filters": ("PATCH", "/filters", {"volume": 0.5}),
    "metadata": ("PATCH", "/metadata", {"value": {"x": 1}}),
    "overlay": ("POST", "/overlays", {"uri": "c.wav", "endMs": 100}),
    "delete": ("DELETE", "", None),
}

BY_THEMSELVES: Final = ("ListenersChange", "QueueDetails")

# The player goes on as it is: this is what it is in each state.
AS_BEFORE: Final = {
    "idle": "idle - 0",
    "ended": "idle a 0",
    "stopped": "idle a 1",
    "failed": "failed a 0",
    "loading": "loading a 1",
    "playing": "playing a 1",
    "paused": "playing paused a 1",
    "asleep": "playing a 1",
}
# In whatever state, unless it is among `EXPECTED`.
EVERYWHERE: Final = {
    "play": "204",
    "shuffle": "204",
    "previous": "409 no_previous",
    "clear": "204 QueueUpdate 0",
    "loop": "204 LoopModeChange track",
    "filters": "204 FiltersChange",
    "metadata": "204 MetadataChange",
    "overlay": "201 OverlayStart, OverlayEnd finished",
}
C_PLAYS: Final = "PlayerUpdate loading, TrackStart c, PlayerUpdate playing"
A_PLAYS: Final = "PlayerUpdate loading, TrackStart a, PlayerUpdate playing"
B_PLAYS: Final = "PlayerUpdate loading, TrackStart b, PlayerUpdate playing"
IS_READY: Final = "PlayerUpdate loading, PlayerUpdate playing"
A_FAILS: Final = "PlayerUpdate loading, TrackException a file_missing, TrackEnd a loadFailed, PlayerUpdate failed"
WHILE_PLAYING: Final = {
    "pause": "204 PlayerPause, PlayerUpdate playing -> playing paused a 1",
    "skip": f"204 TrackEnd a skipped, QueueUpdate 0, {B_PLAYS} -> playing b 0",
    "seek": f"204 Seek, {IS_READY}",
    "stop": "204 TrackEnd a stopped, PlayerUpdate idle -> idle a 1",
    "replace": f"201 TrackEnd a replaced, {C_PLAYS} -> playing c 1",
    "enqueue": "201 QueueUpdate 2 -> playing a 2",
    "clear": "204 QueueUpdate 0 -> playing a 0",
    "delete": "204 TrackEnd a stopped, PlayerDelete",
}
EXPECTED: Final[Mapping[str, Mapping[str, str]]] = {
    "idle": {  # since it was created
        "pause": "204 PlayerPause, PlayerUpdate idle -> idle paused - 0",
        "skip": "204",
        "seek": "409 not_seekable",
        "stop": "204",
        "replace": f"201 {C_PLAYS} -> playing c 0",
        "enqueue": f"201 {C_PLAYS} -> playing c 0",
        "clear": "204",
        "delete": "204 PlayerDelete",
    },
    "ended": {
        "play": f"204 {A_PLAYS}, TrackEnd a finished, PlayerUpdate idle",
        "pause": "204 PlayerPause, PlayerUpdate idle -> idle paused a 0",
        "skip": "204",
        "seek": "204",  # behind its end
        "stop": "204",
        "replace": f"201 {C_PLAYS} -> playing c 0",
        "enqueue": f"201 {C_PLAYS} -> playing c 0",
        "clear": "204",
        "previous": f"204 {A_PLAYS}, TrackEnd a finished, PlayerUpdate idle",
        "delete": "204 PlayerDelete",
    },
    "stopped": {
        "play": f"204 {A_PLAYS} -> playing a 1",
        "pause": "204 PlayerPause, PlayerUpdate idle -> idle paused a 1",
        "skip": f"204 QueueUpdate 0, {B_PLAYS} -> playing b 0",
        "seek": f"204 Seek, {A_PLAYS} -> playing a 1",
        "stop": "204",
        "replace": f"201 {C_PLAYS} -> playing c 1",
        "enqueue": f"201 QueueUpdate 1, {B_PLAYS} -> playing b 1",
        "clear": "204 QueueUpdate 0 -> idle a 0",
        "previous": f"204 {A_PLAYS} -> playing a 1",
        "delete": "204 PlayerDelete",
    },
    "failed": {
        "play": f"204 {A_FAILS}",
        "pause": "204 PlayerPause, PlayerUpdate failed -> failed paused a 0",
        "skip": "204 TrackEnd a skipped, PlayerUpdate idle -> idle a 0",
        "seek": f"204 Seek, {A_FAILS}",
        "stop": "204 TrackEnd a stopped, PlayerUpdate idle -> idle a 0",
        "replace": f"201 TrackEnd a replaced, {C_PLAYS} -> playing c 0",
        "enqueue": f"201 {C_PLAYS} -> playing c 0",
        "clear": "204",
        "delete": "204 PlayerDelete",
    },
    "loading": {
        "pause": "204 PlayerPause, PlayerUpdate loading -> loading paused a 1",
        "skip": "204 TrackEnd a skipped, QueueUpdate 0, TrackStart b, PlayerUpdate playing -> playing b 0",
        "seek": "204 Seek",
        "stop": "204 TrackEnd a stopped, PlayerUpdate idle -> idle a 1",
        "replace": "201 TrackEnd a replaced, TrackStart c, PlayerUpdate playing -> playing c 1",
        "enqueue": "201 QueueUpdate 2 -> loading a 2",
        "clear": "204 QueueUpdate 0 -> loading a 0",
        "delete": "204 TrackEnd a stopped, PlayerDelete",
    },
    "playing": WHILE_PLAYING,
    "paused": {  # what is new begins when it is played
        "play": "204 PlayerResume, PlayerUpdate playing -> playing a 1",
        "pause": "204",
        "skip": f"204 TrackEnd a skipped, QueueUpdate 0, {IS_READY} -> playing paused b 0",
        "seek": f"204 Seek, {IS_READY}",
        "stop": "204 TrackEnd a stopped, PlayerUpdate idle -> idle paused a 1",
        "replace": f"201 TrackEnd a replaced, {IS_READY} -> playing paused c 1",
        "enqueue": "201 QueueUpdate 2 -> playing paused a 2",
        "clear": "204 QueueUpdate 0 -> playing paused a 0",
        "delete": "204 TrackEnd a stopped, PlayerDelete",
    },
    "asleep": WHILE_PLAYING,
}


@pytest.mark.parametrize("name", list(EXPECTED))
async def test_every_verb(name: str, impatient_node: RunningNode) -> None:
    node = impatient_node
    sound = wav(tone(440, 30.0))
    for file in ("a.wav", "b.wav", "c.wav"):
        (node.folder / file).write_bytes(sound)
    if name == "ended":
        (node.folder / "a.wav").write_bytes(wav(tone(440, 0.1)))
    elif name == "failed":
        (node.folder / "a.wav").unlink()
    async with MediaServer() as server, AsyncExitStack() as stack, following_all(node) as tape:
        first = server.serve("/a.wav", stall()) if name == "loading" else "a.wav"
        found = await asyncio.gather(*(_found(node, stack, tape, name, first, verb) for verb in VERBS))
    assert dict(zip(VERBS, found, strict=True)) == {verb: _expected(name, verb) for verb in VERBS}


def _expected(name: str, verb: str) -> str:
    expected = EXPECTED[name].get(verb) or EVERYWHERE[verb]
    return expected if verb == "delete" or "->" in expected else f"{expected} -> {AS_BEFORE[name]}"


async def _found(node: RunningNode, stack: AsyncExitStack, tape: Tape, name: str, first: str, verb: str) -> str:
    player = f"{name}-{verb}"
    await _bring(node, stack, player, name, first)
    before = await state(node, player)
    method, path, body = VERBS[verb]
    answer = await node.request(method, f"/v0/players/{player}{path}", body)
    said = [str(answer.status)] if answer.status < 400 else [str(answer.status), answer.json()["code"]]
    wanted = _expected(name, verb).partition(" -> ")[0].split(" ", len(said))[len(said) :]

    def told() -> list[str]:
        """The events since then, but those that come by themselves."""
        events, was = [], (before["state"], before["paused"])
        for event in tape.events:
            if event["id"] == player and event.get("seq", 0) > before["seq"] and event["op"] not in BY_THEMSELVES:
                if event["op"] == "PlayerUpdate":
                    before_that, was = was, (event["state"], event["paused"])
                    if was == before_that:
                        continue  # it comes every 5 s
                events.append(summary(event))
        return events

    await eventually(lambda: len(told()) >= len(wanted[0].split(", ") if wanted else []), lambda: f"{wanted}; {told()}")
    now = ""
    if verb != "delete":
        has = await state(node, player)
        paused = " paused" if has["paused"] else ""
        now = f" -> {has['state']}{paused} {has['track']['info']['title'] or '-'} {has['queueLength']}"
        await done(node, "PATCH", f"/v0/players/{player}/metadata", {"value": {"the": "end"}})
        await eventually(lambda: told()[-1:] == ["MetadataChange"], lambda: f"the end of {told()}")
    events = told() if verb == "delete" else told()[:-1]
    return " ".join([*said, ", ".join(events)]).rstrip() + now


async def _bring(node: RunningNode, stack: AsyncExitStack, player: str, name: str, first: str) -> None:
    """A new player into the state of this name."""
    if name == "idle":
        assert (await node.request("POST", "/v0/players", {"id": player, "idle": True})).status == 201
        return
    await create(node, player, first)
    if name in ("ended", "failed"):
        at_rest = "idle" if name == "ended" else "failed"
        await until_state(node, player, lambda now: now["state"] == at_rest)
        return
    await enqueue(node, player, "b.wav")
    if name == "loading":
        return
    if name == "playing":
        await stack.enter_async_context(listening(node, player))
    await until_state(node, player, lambda now: now["state"] == "playing" and now["position"] > 0)
    if name == "asleep":
        await until_state(node, player, lambda now: now["quality"]["decoderProcess"] is None)
    elif name == "paused":
        await order(node, player, "pause")
    elif name == "stopped":
        await done(node, "DELETE", f"/v0/players/{player}/track")

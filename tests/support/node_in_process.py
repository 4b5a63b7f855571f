"""A real node with real decoder processes, and players of it with a listener and an event client."""

import asyncio
import contextlib
import math
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.support.decoder_forks import QuickStarts
from tests.support.eventually import eventually
from tests.support.fetching import QUICK, opener
from tests.support.processes import WaitForCpu, exists, has_children, open_descriptors
from tests.support.sandboxing import SANDBOX
from tests.support.sinks import MemoryEventClient, MemoryListener
from tests.support.wire_check import check_player
from tonearm.core.failure import PlayFailure
from tonearm.core.frame import FRAME_BYTES, FRAMES_PER_SECOND
from tonearm.core.track_info import TrackInfo
from tonearm.decoder.pool.pool import DecoderPool
from tonearm.decoder.pool.starting import DecoderTemplate
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings, usual_parts
from tonearm.protocol.rendering import player_out
from tonearm.sandbox.report import decoder_supervision
from tonearm.sources.http.settings import FetchSettings

BUFFER_S = 0.2  # of audio that a decoder process renders ahead
START_BUFFER_S = 0.16  # of it at the start: the first frame leaves at once, and the tick may be late


@contextlib.asynccontextmanager
async def running_node(
    settings: NodeSettings | None = None,
    fetching: FetchSettings = QUICK,
    parts: Mapping[str, Any] | None = None,
    **opening: Any,
) -> AsyncIterator[Node]:
    """Stopped at the end; then no process, task or descriptor of it may be left.

    Its decoders are forks, confined as `sandboxing` says. `parts` by name take the place of the usual ones. `opening`
    is for `fetching.opener`.
    """
    settings = replace(settings or NodeSettings(decoder_processes=1), decoder_sandbox=SANDBOX)
    start = QuickStarts()  # which may open a descriptor that is no node's
    tasks, descriptors = asyncio.all_tasks(), open_descriptors()
    is_alone = not has_children()  # beside another node, which opens what it wants
    async with opener(settings=fetching, **opening) as source_opener:
        node = Node(replace(usual_parts(source_opener, settings, start), **(parts or {})), settings)
        await node.start()
        try:
            yield node
        finally:
            processes = decoder_processes(node)
            await node.stop()
        assert not any(map(exists, processes))
        assert not [task for task in asyncio.all_tasks() - tasks if _is_of_the_node(task)]
    # A server in this process takes a moment to see that its client is gone.
    if is_alone:
        await eventually(lambda: open_descriptors().keys() <= descriptors.keys(), "every descriptor is given back")


def with_pool(kind: Callable[..., DecoderPool] = DecoderPool, **given: Any) -> dict[str, Any]:
    """Parts of a node: a pool of this kind, with one process and what is `given` for it, and the template of that."""
    memory_limit_mb = NodeSettings().decoder_memory_limit_mb
    template = DecoderTemplate(memory_limit_mb, SANDBOX, QuickStarts())
    options = {"sandbox": decoder_supervision(SANDBOX), "starter": template, **given}
    return {"template": template, "pool": kind(1, memory_limit_mb, **options)}


def _is_of_the_node(task: asyncio.Task[Any]) -> bool:
    return "/src/tonearm/" in repr(task.get_coro())


async def spare_ready(node: Node) -> None:
    """Waits until a decoder process is ready that no player uses."""
    await eventually(lambda: node._pool.has_spare, "a spare decoder process is ready")


async def forget_players(node: Node) -> None:
    """Deletes all of them, so that the next test finds the node as if it were new."""
    for player in node.players():
        await node.delete_player(player.status().player_id)
    await spare_ready(node)


async def loaded(node: Node, identifier: str) -> TrackInfo | PlayFailure:
    """What a client gets that looks a track up."""
    return await node.lookup.load(identifier, came_through_proxy=False)


def decoder_processes(node: Node) -> list[int]:
    """The process of each player."""
    found = {player.status().quality.decoder_process_id for player in node.players()}
    return [process_id for process_id in found if process_id is not None]


def state_of(node: Node, player_id: str) -> Any:
    """A player's whole state, as clients get it."""
    state = player_out(node.player(player_id).status())
    check_player(state)
    return state


def explained_underruns(waited_s: float) -> int:
    """How often a player may run out of frames whose processes the machine made wait for so long: once at the start of
    its track, where less is in hand than later."""
    return max(int(waited_s >= START_BUFFER_S), int(waited_s / BUFFER_S))


class Listening:
    """A player of a node, somebody who listens to it, and somebody who follows its events."""

    def __init__(self, node: Node, player_id: str) -> None:
        self.node = node
        self.id = player_id
        self._wait = WaitForCpu(*self._processes)
        self.listener = MemoryListener()
        self.events = MemoryEventClient()
        self.events.on_send = lambda: self._heard_before.append(len(self.listener))
        self._heard_before: list[int] = []  # frames, for each event
        node.player(player_id).subscribe(self.events, since=None, wants_snapshot=False)
        node.player(player_id).attach(self.listener)

    @property
    def state(self) -> Any:
        return state_of(self.node, self.id)

    @property
    def quality(self) -> Any:
        return self.state["quality"]

    @property
    def _processes(self) -> list[int]:
        process_id = self.node.player(self.id).status().quality.decoder_process_id
        return [] if process_id is None else [process_id]

    @property
    def ends(self) -> list[tuple[str, str]]:
        """What ended, by title, and why."""
        return [(event["track"]["info"]["title"], event["reason"]) for event in self.events.named("TrackEnd")]

    @property
    def starts(self) -> list[str]:
        return [event["track"]["info"]["title"] for event in self.events.named("TrackStart")]

    @property
    def failures(self) -> list[str]:
        return [event["error"]["code"] for event in self.events.named("TrackException")]

    def frames_before(self, op: str, count: int = 1) -> int:
        """How many frames were heard when an event of this kind came for the `count`th time: however late the machine
        lets a test see it."""
        heard = [at for at, event in zip(self._heard_before, self.events.events, strict=True) if event["op"] == op]
        return heard[count - 1]

    async def more_frames(self, count: int) -> bytes:
        """The next `count` frames from now on: so much of the node's time has passed for every player."""
        start = len(self.listener)
        await self.listener.wait_frames(start + count)
        return b"".join(self.listener.messages[start : start + count])

    async def plays_on(self, up_to_ms: int) -> None:
        """Waits for this position."""
        await eventually(lambda: self.state["position"] >= up_to_ms, f"{self.id} plays up to {up_to_ms} ms")

    def require_no_underrun(self) -> None:
        """That it never ran out of frames, or not more often than the machine made its processes wait so long."""
        waited_s = self.waited_s
        assert self.quality["timesRunDry"] <= explained_underruns(waited_s), f"they waited for {waited_s:.3f} s"

    @property
    def waited_s(self) -> float:
        """For how long the machine has made this player's processes wait since it was there."""
        return self._wait.seconds(*self._processes)

    @property
    def waited_frames(self) -> int:
        """The same in frames."""
        return math.ceil(self.waited_s * FRAMES_PER_SECOND)

    def kill_decoder(self) -> int:
        """Kills the process that decodes for this player, and returns which one that was."""
        process_id: int = self.quality["decoderProcess"]
        os.kill(process_id, signal.SIGKILL)
        return process_id

    async def moved(self, *killed: int) -> None:
        """Waits until another process than those decodes for this player."""
        await eventually(lambda: self.quality["decoderProcess"] not in (None, *killed), "another process")

    async def enqueue(self, *uris: str) -> None:
        for uri in uris:
            await self.node.enqueue(self.id, uri, {})

    async def wait_state(self, state: str) -> None:
        if self.state["state"] != state:
            count = len([event for event in self.events.named("PlayerUpdate") if event["state"] == state])
            await self.events.wait_for("PlayerUpdate", count + 1, state=state)


async def listening(node: Node, player_id: str, *uris: str) -> Listening:
    """A new player with these tracks, heard from its first sample on."""
    await node.create_player(player_id, uris[0], {})
    player = Listening(node, player_id)
    await player.enqueue(*uris[1:])
    return player


def padded(*parts: bytes) -> bytes:
    """PCM one after the other, filled with silence to whole frames."""
    pcm = b"".join(parts)
    return pcm + bytes(-len(pcm) % FRAME_BYTES)


def heard_whole(heard: bytes, *parts: bytes) -> None:
    """All parts were heard in this order, no sample lost or doubled; silence may fill a part's last frame."""
    at = 0
    for part in parts:
        found = heard.find(part, at)
        assert found - at in range(FRAME_BYTES)
        assert not any(heard[at:found])
        at = found + len(part)
    assert len(heard) - at in range(FRAME_BYTES)
    assert not any(heard[at:])

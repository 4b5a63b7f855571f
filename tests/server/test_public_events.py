"""Who follows a player at the public address: in whose name the node is asked, and what becomes of the slow."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest

from tests.support.edge import StillNode, running_public
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.http_client import TEXT, Connection, connected, websocket
from tonearm.core import events
from tonearm.protocol.framing import CloseCode
from tonearm.server.http_server import ConnectionLimits
from tonearm.server.public import MAX_BEHIND, SLICE_FOLLOWERS

MANY = SLICE_FOLLOWERS + 5
UPDATE = events.PlayerUpdate(events.PlayerState.PLAYING, paused=False, position_ms=20)


def told(event: events.Event) -> events.EventMessage:
    return events.EventMessage("p", "1ife", 1, 5, event)


async def test_all_who_follow_are_one_client_of_the_player_and_hear_only_what_is_theirs(node: StillNode) -> None:
    player = node.player("p")
    async with running_public(node) as port:
        async with AsyncExitStack() as stack:
            followers = [await stack.enter_async_context(websocket(port, "/p/events")) for _ in range(MANY)]
            for follower in followers:
                assert json.loads((await follower.read_frame()).payload)["id"] == "p"
            (window,) = node.followers
            for event in (events.ListenersChange(3), events.QueueUpdate(1, 1), events.MetadataChange({})):
                window.send(told(event))
            for change in (events.PlayerPause(0), events.PlayerResume(0), UPDATE):
                window.send(told(change))  # together they are one message
            for follower in followers:
                assert json.loads((await follower.read_frame()).payload)["state"] == player.status().state.value
            window.close(CloseCode.DELETED, "the player was deleted")
            for follower in followers:
                assert (await follower.read_frame()).close_code() == CloseCode.DELETED
            # Those of the deleted player have not all left when others follow the next one of its name.
            early = await stack.enter_async_context(websocket(port, "/p/events"))
            assert (await early.read_frame()).opcode == TEXT
            for follower in followers:
                follower.writer.transport.abort()
            await eventually(lambda: len(node.followers) == 1, "the others have left")
            await stack.enter_async_context(websocket(port, "/p/events"))
            assert len(node.followers) == 1
        async with websocket(port, "/p/events"):
            assert window not in node.followers  # it is a new player of the same id
        await eventually(lambda: not node.followers, "nobody looks any more")


async def test_those_who_only_follow_give_way_to_those_who_listen(node: StillNode) -> None:
    """Or a few addresses that follow for nothing would keep all listeners out."""
    limits = ConnectionLimits(4, 4)
    async with running_public(node, limits) as port, AsyncExitStack() as stack:

        async def listens() -> Connection:
            listener = await stack.enter_async_context(connected(port))
            listener.send_request("GET", "/p.mp3")
            assert (await listener.read_head()).status == 200
            return listener

        listeners = [await listens()]
        followers = [await stack.enter_async_context(websocket(port, "/p/events")) for _ in range(2)]
        idle = await stack.enter_async_context(connected(port))  # does nothing
        for gone in (followers[0], idle, followers[1]):  # of those who follow and those who do nothing, the more
            listeners.append(await listens())
            await gone.read_to_cut()
        late = await stack.enter_async_context(connected(port))
        late.send_request("GET", "/p.mp3")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await late.read_head()
        assert len(node.listeners) == len(listeners) == 4


async def test_who_reads_nothing_is_closed_and_the_others_go_on(node: StillNode) -> None:
    limits = ConnectionLimits(close_grace_s=PATIENCE_S)  # the one who was closed reads when all has been sent
    async with (
        running_public(node, limits) as port,
        websocket(port, "/p/events", receive_buffer_bytes=4096) as slow,
        websocket(port, "/p/events") as other,
    ):
        await other.read_frame()
        (window,) = node.followers

        async def tell(count: int) -> None:
            for _ in range(count):
                window.send(told(UPDATE))
                assert (await other.read_frame()).opcode == TEXT

        await tell(2000)  # the kernel takes a thousand
        frame = await slow.read_frame()
        frames = 0
        while frame.opcode == TEXT:
            frame, frames = await slow.read_frame(), frames + 1
        assert frame.close_code() == CloseCode.TOO_SLOW
        assert MAX_BEHIND <= frames < 2000
        await tell(1)

import json

import pytest

from tests.support.edge import StillNode
from tests.support.eventually import eventually
from tests.support.http_client import TEXT, WEBSOCKET_HEADERS, Frame, request, websocket
from tonearm.core.events import EventMessage, StreamTitle
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback_requests import Requests
from tonearm.protocol.event_rendering import event_text
from tonearm.server.replies import SENT_AT_ONCE_BYTES, SLICE_BYTES

EVENTS = "/v0/players/p/events"


def titled(title: str) -> EventMessage:
    return EventMessage("p", "1ife", 1, 5, StreamTitle("a", title))


def title_in(frame: Frame) -> str:
    title = json.loads(frame.payload)["title"]
    assert isinstance(title, str)
    return title


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536, 200_000])
async def test_events_come_as_text_in_order(node: StillNode, port: int, size: int) -> None:
    async with websocket(port, EVENTS) as client:
        (sink,) = node.followers
        messages = [titled("ä" + "x" * size), titled("second")]
        for message in messages:
            sink.send(message)
        for message in messages:
            frame = await client.read_frame()
            assert (frame.opcode, frame.head[0]) == (TEXT, 0x80 | TEXT)
            assert frame.payload.decode() == message.text(event_text)


async def test_what_the_node_sends_on_subscribing_comes_first(node: StillNode, port: int) -> None:
    for number in range(200):
        node.player("p").change_metadata(False, number)
    async with websocket(port, f"{EVENTS}?since=0") as client:
        received = [json.loads((await client.read_frame()).payload)["metadata"] for _ in range(200)]
    assert received == list(range(200))


async def test_the_query_says_what_comes_first(node: StillNode, port: int) -> None:
    player = node.player("p")
    player.do(Requests.set_loop, LoopMode.QUEUE)
    player.change_metadata(False, 1)
    for query, ops in (
        ("snapshot=false&other=1", ""),
        ("since=0", "LoopModeChange MetadataChange "),
        ("since=1&snapshot=true", "MetadataChange "),
        (f"since={player.status().life}.1", "MetadataChange "),
        ("since=0123abcd.1", "PlayerState "),
        ("snapshot=true", "PlayerState "),
    ):
        async with websocket(port, f"{EVENTS}?{query}") as client:
            node.followers[0].send(titled("now"))
            expected = [*ops.split(), "StreamTitle"]
            assert [json.loads((await client.read_frame()).payload)["op"] for _ in expected] == expected, query
        await eventually(lambda: not node.followers, "the client is gone")


async def test_all_players_are_followed_until_the_client_leaves(node: StillNode, port: int) -> None:
    async with websocket(port, "/v0/events") as client:
        (sink,) = node.followers
        sink.send(titled("One"))
        assert title_in(await client.read_frame()) == "One"
    assert (await request(port, "GET", "/v0/events?since=1", headers=WEBSOCKET_HEADERS)).status == 400
    await eventually(lambda: not node.followers, "the client is gone")


async def test_states_of_fat_players_are_sent_no_faster_than_the_client_takes_them(node: StillNode, port: int) -> None:
    ids = ["p", *(f"fat{number:03}" for number in range(199))]
    for player_id in ids[1:]:
        await node.create_player(player_id, None, "x" * SLICE_BYTES)
    async with websocket(port, "/v0/events?snapshot=true", receive_buffer_bytes=4096) as client:
        (sink,) = node.followers
        await eventually(lambda: sink.pending_bytes() > SENT_AT_ONCE_BYTES, "the client is behind")
        for player_id in ids:
            assert sink.pending_bytes() <= SENT_AT_ONCE_BYTES + 3 * SLICE_BYTES  # a state shows the metadata twice
            assert json.loads((await client.read_frame()).payload)["id"] == player_id


async def test_waiting_messages_are_counted_one_by_one(node: StillNode, port: int) -> None:
    async with websocket(port, EVENTS, receive_buffer_bytes=4096) as client:
        (sink,) = node.followers
        sent = 0
        while sink.pending_messages() == 0:  # until the kernel is full
            sink.send(titled(f"{sent:>8}" + "x" * 2000))
            sent += 1
        before = sink.pending_messages()
        for _ in range(10):
            sink.send(titled(f"{sent:>8}" + "x" * 2000))
            sent += 1
        assert sink.pending_messages() == before + 10
        for number in range(sent):
            assert int(title_in(await client.read_frame())[:8]) == number
        assert sink.pending_messages() == 0

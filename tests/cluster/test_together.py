"""What a node shows of all nodes, and how long it waits for them."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from tests.support.edge import running_edge, still_node
from tests.support.eventually import eventually
from tests.support.hand_time import LoopTime
from tests.support.http_client import websocket
from tests.support.running_cluster import cuttable
from tonearm.cluster.forwarding import Forwarding
from tonearm.cluster.nodes import Joined
from tonearm.cluster.together import AllPlayers
from tonearm.core.cluster import NodeRecord
from tonearm.core.errors import NodeUnreachable
from tonearm.core.figures import ClusterFigures
from tonearm.description.operation import Operation
from tonearm.server.app import EdgeSettings, build_app, listen_on
from tonearm.server.bodies import read_raw
from tonearm.server.http_server import EdgeRequest
from tonearm.server.replies import no_content
from tonearm.server.routing import Call, Route
from tonearm.server.streams import OpenStreams


async def test_a_list_waits_for_a_node_that_stands_still_no_longer_than_its_lease_lasts() -> None:
    asked: list[asyncio.StreamWriter] = []
    async with await asyncio.start_server(lambda _, writer: asked.append(writer), "127.0.0.1", 0) as silent:
        address = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        forwarding = Forwarding("", lambda _: not asked, lambda: 0, 6.0)
        members = SimpleNamespace(living=lambda _: {"a": NodeRecord(""), "b": NodeRecord(address)})
        membership, nobody = SimpleNamespace(members=members, own_record=lambda: NodeRecord("")), cast(Any, None)
        joined = Joined("a", nobody, cast(Any, membership), nobody, forwarding, lambda: 0)
        assert await AllPlayers(joined, nobody, {}).ask_others("GET", "/v0/players") == []
        await forwarding.close()
        asked[0].close()


async def test_a_socket_waits_for_the_next_node_longer_than_the_lease_of_a_lost_one_lasts() -> None:
    time, waited_s = LoopTime(), 0

    async def nowhere() -> None:
        nonlocal waited_s
        time.forward(10)
        waited_s += 10

    with pytest.raises(NodeUnreachable):
        await Forwarding("", lambda _: True, lambda: 0, 60.0).socket_anywhere(nowhere, "/")
    assert waited_s > 60


@pytest.mark.parametrize(("address", "may_reach"), [("http://127.0.0.1:1", False), ("http://224.0.0.1:1", True)])
async def test_a_node_to_which_there_is_no_way_may_reach_the_engine(address: str, may_reach: bool) -> None:
    """As when this node's cable is pulled: the system says at once that the network is unreachable."""
    forwarding = Forwarding("", lambda _: True, lambda: 0, 6.0)
    assert await forwarding.reaches_engine(address) is may_reach
    await forwarding.close()


async def test_an_answer_whose_end_does_not_come_is_waited_for_no_longer_than_its_node_lives() -> None:
    asked: list[asyncio.StreamWriter] = []

    async def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        asked.append(writer)

    async with await asyncio.start_server(begin, "127.0.0.1", 0) as silent:
        address = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        forwarding = Forwarding("", lambda _: not asked, lambda: 0, 6.0)
        request = cast(Any, SimpleNamespace(method="GET", raw_path="/v0/players/p", headers={}))
        with pytest.raises(NodeUnreachable):
            await forwarding.pass_on(request, None, address, "b")
        await forwarding.close()
        asked[0].close()


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
async def test_what_a_node_may_have_carried_out_is_not_sent_to_it_again(method: str) -> None:
    asked: list[str] = []

    async def answer_the_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_over = False
        while not is_over:
            asked.append((await reader.readuntil(b"\r\n\r\n")).decode().split()[0])
            is_over = len(asked) > 1
            writer.write(b"" if is_over else b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer_the_first, "127.0.0.1", 0) as ending:
        address = f"http://127.0.0.1:{ending.sockets[0].getsockname()[1]}"
        forwarding = Forwarding("", lambda _: True, lambda: 0, 6.0)
        request = cast(Any, SimpleNamespace(method=method, raw_path="/v0/players/p", headers={}))
        request.add_reply_header = lambda *_: None
        try:
            await forwarding.pass_on(request, None, address, "b")  # so that the connection is there
            with pytest.raises(NodeUnreachable):
                await forwarding.pass_on(request, None, address, "b")
        finally:
            await forwarding.close()
    assert asked == [method, method]


async def test_a_body_that_came_packed_is_passed_on_as_what_it_is_by_then() -> None:
    async with still_node() as node, running_edge(node) as port:
        forwarding = Forwarding("", lambda _: True, lambda: 0, 6.0)
        target, headers = "/v0/players/p/queue/none", {"Content-Encoding": "gzip"}
        request = cast(Any, SimpleNamespace(method="PATCH", raw_path=target, headers=headers))
        request.add_reply_header = lambda *_: None
        try:
            answer = await forwarding.pass_on(request, b'{"index": 0}', f"http://127.0.0.1:{port}", "b")
        finally:
            await forwarding.close()
        assert isinstance(answer, web.Response)
        assert b'"track_not_found"' in cast(bytes, answer.body)


@pytest.mark.parametrize(
    ("query", "first"),
    [("", []), ("?snapshot=true", ["PlayerState"]), ("?since=2", ["MetadataChange"]), ("?since=3", [])],
)
async def test_events_go_on_after_a_link_that_broke_where_they_were(query: str, first: list[str]) -> None:
    async with still_node() as node, running_edge(node) as port:
        player = node.player("p")
        for number in range(3):
            player.change_metadata(False, number)
        async with cuttable(cast(Any, SimpleNamespace(port=port)), "http") as link:
            forwarding = Forwarding("", lambda _: True, lambda: 0, 6.0)

            async def where() -> tuple[str, str]:
                return link.url, "b"

            async def passed(request: web.BaseRequest) -> web.StreamResponse:
                return await forwarding.pass_events(cast(Any, request), OpenStreams(20.0, 1.0), where)

            runner = web.ServerRunner(web.Server(passed))
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            try:
                async with websocket(site.port, f"/v0/players/p/events{query}") as client:
                    for op in first:
                        assert json.loads((await client.read_frame()).payload)["op"] == op
                    link.cut()
                    await eventually(lambda: not node.followers, "the link is broken")
                    link.mend()
                    await eventually(lambda: bool(node.followers), "there is another one")
                    player.change_metadata(False, "new")
                    assert json.loads((await client.read_frame()).payload)["metadata"] == "new"
            finally:
                await runner.cleanup()
                await forwarding.close()


class Elsewhere:
    """As `ClusterRoutes`, of a cluster in which this node has the player at first, and then another one."""

    own, name = "a", "test"

    def __init__(self) -> None:
        self.is_asked = asyncio.Event()
        self.body = b""

    def serves(self, *_: object) -> None: ...

    def routes(self) -> tuple[Route, ...]:
        return ()

    def figures(self) -> ClusterFigures:
        raise NotImplementedError

    def is_from_node(self, _: EdgeRequest) -> bool:
        return False

    async def answer(self, call: Call, _: Operation) -> web.StreamResponse | None:
        if not self.is_asked.is_set():
            self.is_asked.set()
            return None
        self.body = bytes(await read_raw(call.request, 100))
        return no_content()


async def test_a_request_whose_player_moves_while_its_body_comes_is_done_at_the_next_node() -> None:
    elsewhere = Elsewhere()
    async with still_node() as node:
        server = await listen_on(build_app(node, EdgeSettings(), elsewhere), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = "PATCH /v0/players/p/metadata HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n\r\n"
        writer.write(head.encode() + b'{"value"')
        await elsewhere.is_asked.wait()
        await node.give_up("p", "It goes on elsewhere.")
        writer.write(b": 1}")
        assert await reader.readline() == b"HTTP/1.1 204 No Content\r\n"
        assert elsewhere.body == b'{"value": 1}'
        writer.close()
        await server.close()

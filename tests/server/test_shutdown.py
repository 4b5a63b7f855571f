"""Stopping the edge while clients of every kind are connected."""

import asyncio

from tests.support.edge import StillNode
from tests.support.eventually import eventually
from tests.support.http_client import connected, websocket
from tonearm.core.frame import FRAME_BYTES
from tonearm.server.app import EdgeSettings, build_app, listen_on

WS, EVENTS, WAV = "/v0/players/p/ws", "/v0/players/p/events", "/v0/players/p/stream.wav"

# It takes about one second; a machine under load may need longer, but no client may hold it for ever.
LONGEST_STOP_S = 10


async def test_stuck_clients_do_not_hold_up_the_stop(node: StillNode) -> None:
    server = await listen_on(build_app(node, EdgeSettings()), "127.0.0.1", 0)
    async with (
        node.changing_queue("p"),  # for which a request waits
        websocket(server.port, WS, receive_buffer_bytes=4096),
        connected(server.port, receive_buffer_bytes=4096) as wav,
        websocket(server.port, EVENTS) as silent,
        connected(server.port) as idle,
        connected(server.port) as asking,
    ):
        wav.send_request("GET", WAV)
        await eventually(lambda: len(node.listeners) == 2, "both listeners are there")
        for sink in node.listeners:
            while sink.pending_bytes() < 2**20:
                sink.write(bytes(FRAME_BYTES))
        asking.send_request("POST", "/v0/players/p/queue", body=b'{"uri": "a.mp3"}')
        await asking.read_by_node()
        idle.send_request("GET", "/info")
        await idle.read_answer()  # so the request before it has begun

        await server.stop_accepting()
        await node.stop()
        async with asyncio.timeout(LONGEST_STOP_S):
            await server.close()
        assert node.sinks == []
        assert (await silent.read_frame()).close_code() == 1001
        assert await idle.read_to_end() == b""
        assert await asking.read_to_end() == b""

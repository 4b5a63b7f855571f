import asyncio

import pytest

from tests.support.edge import StillNode, running_edge, still_node
from tests.support.eventually import eventually
from tests.support.hand_time import LoopTime
from tests.support.http_client import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    WEBSOCKET_HEADERS,
    Connection,
    Headers,
    connected,
    request,
    websocket,
)
from tests.support.planted_faults import OUR_FAULT, sockets_not_read
from tonearm.core.frame import FRAME_BYTES, Output, mp3_output
from tonearm.core.frame import PCM as PCM_OUTPUT
from tonearm.node.parts import NodeSettings
from tonearm.player.clients.sinks import FrameSink
from tonearm.protocol.framing import Framing
from tonearm.server.app import EdgeSettings

SOCKETS = ["/v0/players/p/ws", "/v0/players/p/events"]
WS = SOCKETS[0]
PCM = bytes(range(256)) * (FRAME_BYTES // 256)
MESSAGE = b"\x82\x7e" + FRAME_BYTES.to_bytes(2) + PCM


async def fill(sink: FrameSink) -> None:
    """Writes until the kernel takes no more for this client."""
    while sink.pending_bytes() < 2**20:
        sink.write(MESSAGE)
        await asyncio.sleep(0)


async def gone(node: StillNode) -> None:
    """Waits until nobody listens."""
    await eventually(lambda: not node.sinks, "every listener is gone")


async def answers(client: Connection) -> None:
    """Waits until the node has read all that this client has sent, which it answers in its order."""
    client.send_frame(PING, b"are you there?")
    frame = await client.read_frame()
    assert (frame.opcode, frame.payload) == (PONG, b"are you there?")


async def test_frames_come_byte_for_byte(node: StillNode, port: int) -> None:
    async with websocket(port, WS) as client:
        (sink,) = node.listeners
        assert sink.framing is Framing.WEBSOCKET
        sink.write(MESSAGE)
        sink.write(MESSAGE)
        assert await client.reader.readexactly(2 * len(MESSAGE)) == MESSAGE * 2
        assert sink.pending_bytes() == 0


@pytest.mark.parametrize("path", SOCKETS)
async def test_nothing_is_compressed_pings_are_answered_and_the_rest_is_ignored(port: int, path: str) -> None:
    async with connected(port) as client:
        client.send_request("GET", path, (*WEBSOCKET_HEADERS, ("Sec-WebSocket-Extensions", "permessage-deflate")))
        head = await client.read_head()
        assert (head.status, head.header("Sec-WebSocket-Extensions")) == (101, None)
        assert head.header("Sec-WebSocket-Accept") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        client.send_frame(TEXT, b"hello")
        client.send_frame(BINARY, b"\x00" * 60_000)
        client.send_frame(PONG, b"unasked")
        await answers(client)


async def test_a_client_that_floods_with_pings_and_reads_nothing_costs_no_memory(node: StillNode, port: int) -> None:
    async with websocket(port, WS, receive_buffer_bytes=4096) as client:
        (sink,) = node.listeners

        async def flood() -> None:
            for _ in range(100):
                client.send_frame(PING, b"x" * 125)
            await client.writer.drain()
            await asyncio.sleep(0)

        while sink.pending_bytes() < 128 * 1024:  # the kernel is full, pongs wait in the node
            await flood()
        for _ in range(45):  # whose pongs would be 570 kB
            await flood()
            assert sink.pending_bytes() < 512 * 1024


@pytest.mark.parametrize("path", SOCKETS)
async def test_others_are_answered_while_a_client_floods(port: int, path: str) -> None:
    """Messages without content are the smallest: some ten thousand of them come in one piece."""
    async with websocket(port, path) as flooding, connected(port) as other:
        flooding.send(b"\x81\x80\0\0\0\0" * 3000)
        flooding.send_frame(PING, b"the end")
        reading = asyncio.create_task(flooding.read_frame())
        answers = 0
        while not reading.done():
            other.send_request("GET", "/version")
            assert (await other.read_answer()).status == 200
            answers += 1
        assert reading.result().payload == b"the end"
        assert answers > 5


@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize(("code", "reason"), [(1000, "deleted"), (1001, ""), (1013, "too slow " + "ä" * 100)])
async def test_a_close_is_the_last_frame(node: StillNode, port: int, path: str, code: int, reason: str) -> None:
    async with websocket(port, path) as client:
        (sink,) = node.sinks
        sink.close(code, reason)
        sink.close(1011, "a second time")
        if path == WS:
            node.listeners[0].write(MESSAGE)
        client.send_frame(PING, b"late")
        frame = await client.read_frame()
        assert (frame.opcode, frame.close_code()) == (CLOSE, code)
        assert reason.startswith(frame.payload[2:].decode())
        client.send_frame(CLOSE, frame.payload[:2])
        assert await client.read_to_end() == b""
    await gone(node)


@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize(
    ("sent", "payload"),
    [
        (b"\x88\x85\0\0\0\0\x03\xe8bye", b"\x03\xe8"),
        (b"\x88\x80\0\0\0\0", b""),
        (b"\xff\xff\xff\xff", b"\x03\xea"),
        (b"", None),
    ],
)
async def test_a_client_that_closes_breaks_or_is_lost_is_forgotten(
    node: StillNode, port: int, path: str, sent: bytes, payload: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with websocket(port, path) as client:
        (sink,) = node.sinks
        client.send(sent)
        if payload is not None:
            frame = await client.read_frame()
            assert (frame.opcode, frame.payload[:2]) == (CLOSE, payload)
    await gone(node)
    sink.close(1000, "too late")
    sink.abort()
    assert "ERROR" not in caplog.text


@pytest.mark.parametrize("path", SOCKETS)
async def test_a_plain_get_is_told_to_upgrade(node: StillNode, port: int, path: str) -> None:
    ways: list[Headers] = [(), WEBSOCKET_HEADERS[:-1], WEBSOCKET_HEADERS[1:]]
    for wrong in ("Upgrade: h2c", "Version: 99", "Key: short", "Key: schlüssel"):
        name, value = wrong.split(": ")
        ways.append([(one, value if one.endswith(name) else right) for one, right in WEBSOCKET_HEADERS])
    for headers in ways:
        answer = await request(port, "GET", path, headers=headers)
        assert (answer.status, answer.json()["code"]) == (400, "upgrade_required"), headers
    await gone(node)


async def test_a_full_player_refuses_with_429() -> None:
    async with still_node(NodeSettings(max_listeners=0)) as node, running_edge(node) as port:
        for path in (WS, "/v0/players/p/stream.wav"):
            answer = await request(port, "GET", path, headers=WEBSOCKET_HEADERS)
            assert (answer.status, answer.json()["code"]) == (429, "limit_reached")


WRONG = """
    ws?format=mp3 ws?format= ws?header=2 ws?header=yes ws?bitrate=64000 ws?format=opus&bitrate=0
    ws?format=opus&bitrate=600000 ws?format=opus&bitrate=6k ws?maxLatencyMs=0 ws?maxLatencyMs=-5 ws?maxLatencyMs=1e3
    stream.ogg?bitrate=5000 stream.mp3?bitrate=100000 stream.wav?bitrate=128000 stream.ogg?burst=-1
    stream.mp3?burst=99999 stream.ogg?chained=2 stream.wav?maxLatencyMs=x events?since= events?since=-1 events?since=1.5
    events?since=x events?since=+1 events?since=1&since=2 events?since=999999999999999999999999999999
    events?since=%D9%A1 events?snapshot= events?snapshot=1 events?snapshot=TRUE events?snapshot
"""


async def test_wrong_parameters_are_refused(node: StillNode, port: int) -> None:
    for target in WRONG.split():
        answer = await request(port, "GET", f"/v0/players/p/{target}", headers=WEBSOCKET_HEADERS)
        assert (answer.status, answer.json()["code"], node.sinks) == (400, "bad_request", []), target


async def test_packets_of_a_source_are_for_who_names_no_bitrate(node: StillNode, port: int) -> None:
    for target, output, passes_through in (
        ("ws", PCM_OUTPUT, False),
        ("ws?format=opus", Output("opus"), True),
        ("ws?format=opus&bitrate=64000", Output("opus", 64_000), False),
        ("stream.ogg", Output("opus"), True),
        ("stream.ogg?bitrate=64000", Output("opus", 64_000), False),
        ("stream.mp3", mp3_output(128_000), False),
    ):
        async with connected(port) as client:
            client.send_request("GET", f"/v0/players/p/{target}", WEBSOCKET_HEADERS)
            await client.read_head()
            assert node.listeners[0].output == output._replace(passes_through=passes_through), target
        await gone(node)


async def test_a_listener_that_takes_nothing_delays_nobody(node: StillNode, port: int) -> None:
    async with websocket(port, WS, receive_buffer_bytes=4096), websocket(port, WS) as client:
        stuck, healthy = node.listeners
        await fill(stuck)
        healthy.write(MESSAGE)
        assert (await client.read_frame()).payload == PCM
        assert (await request(port, "GET", "/info")).status == 200
        stuck.close(1013, "too slow")
        # Cut, though it reads no close frame.
        await eventually(lambda: stuck not in node.listeners, "the stuck listener is cut")
        healthy.write(MESSAGE)
        assert (await client.read_frame()).payload == PCM


@pytest.mark.parametrize("path", SOCKETS)
async def test_a_dead_client_is_cut_and_a_living_one_stays(node: StillNode, path: str) -> None:
    time = LoopTime()
    async with running_edge(node, EdgeSettings(ping_interval_s=1000.0)) as port, websocket(port, path) as alive:
        async with websocket(port, path) as dead:
            for client in (alive, dead):
                await answers(client)
            time.forward(1010.0)
            for client in (alive, dead):
                assert (await client.read_frame()).opcode == PING
            # The dead one answers nothing, the living one its ping.
            alive.send_frame(PONG)
            assert (await request(port, "GET", "/info")).status == 200  # the node has read it before
            time.forward(1010.0)
            assert await dead.read_to_cut() == b""
        assert (await alive.read_frame()).opcode == PING
        await answers(alive)


async def test_an_error_of_the_node_in_a_socket_is_logged_although_the_socket_is_closed_by_then(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    with sockets_not_read():
        async with websocket(port, WS) as connection:
            await connection.read_to_end()
    (told,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert told.exc_info is not None
    assert OUR_FAULT in str(told.exc_info[1])

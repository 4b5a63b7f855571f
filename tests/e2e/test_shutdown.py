"""How a node ends while everything is going on, and what it leaves behind: nothing."""

import asyncio
import signal
from pathlib import Path

from tests.support.audio_files import tone, wav
from tests.support.e2e_players import PATIENT, create, delete, enqueue
from tests.support.e2e_sockets import following, listening
from tests.support.eventually import eventually
from tests.support.http_client import TEXT, connected, websocket
from tests.support.media_server import MediaServer, media, stall
from tests.support.processes import exists
from tests.support.public_address import PublicNode, watching
from tests.support.running_node import running_node


async def test_a_signal_ends_everything_in_good_order(tmp_path: Path) -> None:
    """By SIGTERM, which does the same, every other node of the tests is ended."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "song.wav").write_bytes(wav(tone(440, 20.0)))
    config = f'{PATIENT}[public]\nenabled = true\nport = 0\nplayers = ["playing"]\n'
    async with (
        MediaServer() as server,
        running_node(tmp_path, config, variables={"TMPDIR": str(temporary)}) as node,
        connected((public := PublicNode(node)).port) as streaming,
    ):
        await create(node, "playing", "song.wav")
        await create(node, "loading", server.serve("/stalled", stall()))
        stalled_list = server.serve("/stalled.m3u", stall())
        await create(node, "fetching", server.serve("/song.wav", media(wav(tone(440, 20.0)), ranges=False)))
        await enqueue(node, "playing", "missing.wav")
        streaming.send_request("GET", "/playing.wav")
        await streaming.read_head()
        async with (
            following(node, "playing") as tape,
            listening(node, "playing") as ear,
            listening(node, "fetching") as other_ear,
            listening(node, "loading") as waiting_ear,
            websocket(node.port, "/v0/players/playing/ws", receive_buffer_bytes=4096),
            connected(node.port) as half_asked,
            connected(node.port) as creating,
            connected(node.port) as looking_up,
            watching(public, "playing") as window,
        ):
            half_asked.send(b"POST /v0/players HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            creating.send_request("POST", "/v0/players", body=b'{"id": "new", "uri": "%s"}' % stalled_list.encode())
            looking_up.send_request("GET", f"/v0/loadtracks?identifier={stalled_list}?2")
            await server.requested(4)
            await asyncio.gather(ear.frames_heard(20), other_ear.frames_heard(20))
            decoders = node.decoder_pids() | node.template_pids()
            assert decoders
            node.process.send_signal(signal.SIGINT)
            closed = await asyncio.gather(tape.closed(), ear.closed(), other_ear.closed(), waiting_ear.closed())
            frame = await window.connection.read_frame()
            while frame.opcode == TEXT:
                frame = await window.connection.read_frame()
            assert {*closed, frame.close_code()} == {1001}
            chunks = [chunk async for chunk in streaming.chunks()]  # to the last one, that ends the body
            assert len(b"".join(chunks)) > 44
            for asking in (half_asked, creating, looking_up):
                await asking.read_to_cut()
            assert await node.ended() == 0
        assert not [pid for pid in decoders if exists(pid)]
        assert not any("ERROR" in line or "Traceback" in line for line in node.log)
        assert node.log[-1].endswith(" stopped\n")
    assert list(temporary.iterdir()) == []


async def test_an_idle_node_holds_no_more_than_in_the_beginning(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(wav(tone(440, 0.2)))
    async with MediaServer() as server, running_node(tmp_path, "[decoder]\nprocesses = 2\n") as node:
        url = server.serve("/song.wav", media(wav(tone(440, 0.2)), headers="Connection: close\r\n"))
        stuck = server.serve("/stuck", stall())
        await node.decoders_ready(2)

        async def use(turn: int) -> None:
            async def use_one(player: str, uri: str) -> None:
                await create(node, player, uri)
                async with following(node, player, "?since=0") as tape, listening(node, player):
                    await tape.until("TrackEnd")
                    await delete(node, player)
                assert (await node.request("GET", f"/v0/loadtracks?identifier={uri}")).status == 200
                async with connected(node.port) as leaving:
                    leaving.send_request("GET", f"/v0/loadtracks?identifier={stuck}")
                    await leaving.read_by_node()

            uris = ["song.wav", url, "missing.wav"] * 5
            await asyncio.gather(*(use_one(f"{turn}-{number}", uri) for number, uri in enumerate(uris)))
            await server.all_gone()

        await use(0)
        decoders = await node.decoders_ready(4)  # Fifteen players take two, and there is a spare, and one for lookups.
        before = node.open_descriptors()
        for turn in (1, 2):
            await use(turn)
        await eventually(lambda: node.open_descriptors() <= before, "everything closed again")
        assert node.decoder_pids() == decoders
        assert (await node.request("GET", "/v0/players")).json() == []

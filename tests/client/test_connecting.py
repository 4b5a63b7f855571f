"""When there is no node, the error says which of the many ways it was."""

import asyncio
import socket
from pathlib import Path

import pytest

from tests.support.audio_files import music, wav
from tests.support.certificate import unsigned_certificate
from tests.support.environment import variables
from tests.support.hand_time import LoopTime
from tests.support.running_node import running_node
from tests.support.stranger import stranger
from tonearm.client import ConnectError, LimitReached, Node, PlayerNotFound, Unauthorized


async def cause(url: str, *, timeout_s: float = 10.0) -> str:
    with pytest.raises(ConnectError) as found:
        async with Node(url, timeout_s=timeout_s):
            pass
    assert found.value.message.endswith((".", "?"))
    assert url in found.value.message
    return found.value.cause


async def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert await cause(f"http://127.0.0.1:{taken.getsockname()[1]}") == "nothing_listens"
    for url in ("127.0.0.1:2333", "ftp://127.0.0.1", "http://"):
        assert await cause(url) == "wrong_address"
    for url in ("http://127.0.0.1:2333/v0", "http://127.0.0.1:2333/v0/"):
        with pytest.raises(ConnectError, match=r"write http://127\.0\.0\.1:2333\.") as found:
            await Node(url).__aenter__()
        assert found.value.cause == "wrong_address"
    for status in ("200 OK", "404 Not Found"):
        with stranger(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nhi".encode()) as url:
            assert await cause(url) == "not_tonearm"
    with stranger(b"SSH-2.0-OpenSSH_9.2\r\n") as url:
        assert await cause(url) == "not_tonearm"
        assert await cause(url.replace("http:", "https:")) == "no_tls_there"
    with stranger(b"x", unsigned_certificate(tmp_path)) as url:
        assert await cause(url) == "tls_expected"
        assert await cause(url.replace("http:", "https:")) == "no_tls_there"  # nobody vouches for its certificate
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert await cause(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.2) == "timeout"


async def test_the_password(tmp_path: Path) -> None:
    async with running_node(tmp_path, '[server]\npassword = "sesame"\n') as process:
        with pytest.raises(Unauthorized, match="TONEARM_PASSWORD"):
            await Node(process.url).__aenter__()
        with pytest.raises(Unauthorized, match="refused the password"):
            await Node(process.url, password="wrong").__aenter__()
        with variables(TONEARM_URL=process.url, TONEARM_PASSWORD="sesame"):
            of_environment = Node.from_env()
        async with of_environment as node:
            assert (await node.info()).version
            await node.create_player("a")
        async with Node(process.url, password="sesame\n"):  # as a file has it
            pass


async def begun(node: Node, what: str) -> None:
    """A loop over the events or the sound of `a`, up to the first one."""
    player = node.player("a")
    async for _ in player.events() if what == "events" else player.audio():
        return


async def test_a_loop_raises_where_it_begins(tmp_path: Path) -> None:
    config = '[server]\npassword = "sesame"\n[player]\nmax_listeners = 1\n'
    (tmp_path / "song.wav").write_bytes(wav(music(3.0)))
    async with running_node(tmp_path, config) as process, Node(process.url, password="sesame") as node:
        stranger, nowhere = Node(process.url, password="wrong"), Node(process.url)
        for what in ("events", "audio"):
            with pytest.raises(PlayerNotFound, match="There is no player"):
                await begun(node, what)
            with pytest.raises(Unauthorized, match="refused the password"):
                await begun(stranger, what)
        await node.create_player("a", "song.wav")
        await begun(node, "events")
        await begun(node, "audio")
        full = await node.create_player("b", "song.wav")
        async with full.audio():
            with pytest.raises(LimitReached, match="listeners"):  # in the node's own words
                await full.audio().__aenter__()
    for what in ("events", "audio"):
        with pytest.raises(ConnectError, match="Nothing listens"):
            await begun(nowhere, what)
    for one in (stranger, nowhere, nowhere):  # what cleans up raises nothing, however often
        await one.close()


async def test_what_the_node_has_to_fetch_may_take_its_time() -> None:
    time = LoopTime()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        time.forward(30)
        for _ in range(5):  # what is due by then is done
            await asyncio.sleep(0)
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"url":"x"}')
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        node = Node(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        try:
            assert await node.resolve("https://page.example/") == "x"
        finally:
            await node.close()

"""The proxy of resolving processes: who may use it, for what, and for how long."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.media_server import Canary, MediaServer, Reply, Request, media, stall
from tonearm.config.patterns import compile_pattern
from tonearm.core.failure import FailureCode
from tonearm.core.policy import SourcePolicy
from tonearm.sources.guard import AddressGuard, AddressRefusedError
from tonearm.sources.resolver.proxy import CONNECTIONS_AT_MOST, ForwardProxy, ProxyPass


class UsedProxy:
    """A proxy with one pass that is good, and a client that speaks to it by hand."""

    def __init__(self, *, private_networks: bool = True, blocked: str = "") -> None:
        self.guard = AddressGuard(private_networks=private_networks)
        policy = SourcePolicy(blocked=[compile_pattern(blocked)] if blocked else [])
        self.proxy = ForwardProxy(self.guard, policy.admit, connect_timeout_s=5.0)
        self.issued: ProxyPass

    @property
    def authorization(self) -> str:
        encoded = base64.b64encode(f"tonearm:{self.issued.password}".encode()).decode()
        return f"Proxy-Authorization: Basic {encoded}\r\n"

    async def send(self, request_line: str, headers: str | None = None, body: bytes = b"") -> bytes:
        """All that comes back until the proxy closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        head = f"{request_line} HTTP/1.1\r\n{self.authorization if headers is None else headers}\r\n"
        writer.write(head.encode("latin-1") + body)
        try:
            return await reader.read()
        finally:
            writer.transport.abort()


@contextlib.asynccontextmanager
async def proxy(limit_bytes: int = 1_000_000, **options: Any) -> AsyncIterator[UsedProxy]:
    used = UsedProxy(**options)
    try:
        async with used.proxy.issued(limit_bytes) as used.issued:
            yield used
    finally:
        await used.proxy.close()


async def test_a_request_arrives_without_what_is_the_proxys(server: MediaServer) -> None:
    async with proxy() as used:
        url = server.serve("/a?b=c", media(b"hello", length=5))  # the length that it has: it closes then
        headers = used.authorization + "Host: wrong.example\r\nX-Mine: yes\r\nConnection: keep-alive\r\n"
        answer = await used.send(f"GET {url}#fragment", headers)
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"hello")
        sent = server.requests[0]
        assert (sent.path, sent.headers["x-mine"], sent.headers["connection"]) == ("/a?b=c", "yes", "close")
        assert sent.headers["host"] == f"127.0.0.1:{server.port}"
        assert "proxy-authorization" not in sent.headers


async def test_a_body_goes_through_but_nothing_after_it(server: MediaServer) -> None:
    got = asyncio.Event()

    async def answer(request: Request, reply: Reply) -> None:
        got.set()
        await asyncio.Event().wait()

    async with proxy() as used:
        url = server.serve("/a", answer)
        headers = used.authorization + "Content-Length: 4\r\n"
        assert await used.send(f"POST {url}", headers, b"body and a second request") == b""
        await server.all_gone()


async def test_a_tunnel_carries_bytes_both_ways(server: MediaServer) -> None:
    async with proxy() as used:
        server.serve("/a", media(b"through", length=7))
        answer = await used.send(f"CONNECT 127.0.0.1:{server.port}", body=b"GET /a HTTP/1.1\r\nRange: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200")
        assert answer.endswith(b"through")


@pytest.mark.parametrize("password", ["", "wrong", "\xff"])
@pytest.mark.parametrize("target", ["GET http://127.0.0.1:{}/", "CONNECT 127.0.0.1:{}"])
async def test_nobody_else_may_use_it(password: str, target: str) -> None:
    async with Canary() as canary, proxy() as used:
        encoded = base64.b64encode(f"tonearm:{password}".encode("latin-1")).decode()
        for headers in ("", f"Proxy-Authorization: Basic {encoded}\r\n"):
            answer = await used.send(target.format(canary.port), headers)
            assert answer.startswith(b"HTTP/1.1 407")
        assert canary.connections == 0


async def test_a_pass_is_good_for_one_page_only() -> None:
    async with Canary() as canary, proxy() as used:
        async with used.proxy.issued(1000) as other:
            assert other.password != used.issued.password
        used.issued = other
        assert (await used.send(f"GET http://127.0.0.1:{canary.port}/")).startswith(b"HTTP/1.1 407")
        assert canary.connections == 0


async def test_what_is_connected_is_cut_with_the_pass(server: MediaServer) -> None:
    async with proxy() as used:
        url = server.serve("/never", stall())
        async with used.proxy.issued(1000) as used.issued:
            asking = asyncio.create_task(used.send(f"GET {url}"))
            await server.requested(1)
        assert await asking == b""
        await server.all_gone()


# What is asked for, and what is answered; {} is the port of a server that nobody may reach.
ANSWERS: dict[str, int] = {
    **dict.fromkeys(
        ("GET http://127.0.0.1:{}/", "CONNECT 127.0.0.1:{}", "CONNECT localhost:{}", "CONNECT [::1]:{}",
         "CONNECT [::ffff:127.0.0.1]:{}", "CONNECT 2130706433:{}", "CONNECT 0x7f.1:{}", "GET http://0.0.0.0:{}/",
         "GET http://localhost.:{}/", "GET http://127.0.0.1:{}/%73ecret", "CONNECT BLOCKED.example:{}"),
        403,
    ),
    **dict.fromkeys(
        ("GET /path", "GET ftp://127.0.0.1:{}/", "GET https://127.0.0.1:{}/", "GET file:///etc/passwd",
         "CONNECT 127.0.0.1:{}/path", "CONNECT user@127.0.0.1:{}", "CONNECT 127.0.0.1:{}?x", "NONSENSE"),
        400,
    ),
}  # fmt: skip


@pytest.mark.parametrize("line", ANSWERS)
async def test_what_is_refused(line: str) -> None:
    """The patterns see the whole URI, and of a tunnel its host."""
    is_blocked = "ecret" in line or "BLOCKED" in line
    async with Canary() as canary, proxy(private_networks=is_blocked, blocked="secret|^blocked[.]example$") as used:
        assert (await used.send(line.format(canary.port))).startswith(f"HTTP/1.1 {ANSWERS[line]}".encode())
        assert canary.connections == 0
        if ANSWERS[line] == 403:
            assert used.issued.problem is not None
            wanted = FailureCode.SOURCE_BLOCKED if is_blocked else FailureCode.SOURCE_REFUSED
            assert used.issued.problem.code is wanted


async def test_a_host_that_is_not_there() -> None:
    async with MediaServer() as gone:
        url = gone.url("/")
    async with proxy() as used:
        assert (await used.send(f"GET {url}")).startswith(b"HTTP/1.1 502")
        assert used.issued.problem is not None
        assert used.issued.problem.code is FailureCode.CONNECT_FAILED
        assert used.issued.problem.message == "No connection to 127.0.0.1: Connection refused."


async def test_it_does_not_lead_to_itself_and_the_node_does_not_go_there() -> None:
    async with proxy() as used:
        assert (await used.send(f"CONNECT 127.0.0.1:{used.proxy.port}")).startswith(b"HTTP/1.1 403")
        with pytest.raises(AddressRefusedError):
            used.guard.check_address("127.0.0.1", used.proxy.port)


async def test_traffic_has_an_end(server: MediaServer) -> None:
    async with proxy(limit_bytes=100_000) as used:
        url = server.serve("/endless", media(b"x" * 10_000_000))
        assert len(await used.send(f"GET {url}")) <= 100_000
        problem = used.issued.problem
        assert problem is not None
        assert problem.code is FailureCode.LIMIT_EXCEEDED


async def test_connections_have_an_end(server: MediaServer) -> None:
    async with proxy() as used:
        url = server.serve("/never", stall())
        asking = [asyncio.create_task(used.send(f"GET {url}")) for _ in range(CONNECTIONS_AT_MOST)]
        await server.requested(CONNECTIONS_AT_MOST)
        assert (await used.send(f"GET {url}")).startswith(b"HTTP/1.1 429")
        await used.proxy.close()
        assert set(await asyncio.gather(*asking)) == {b""}

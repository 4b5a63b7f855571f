"""The requests of a page, which the node makes: as yt-dlp's own handler, within bounds, and by patterns and guard."""

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yt_dlp
from aiohttp import web
from yt_dlp.networking.common import _REQUEST_HANDLERS

from tests.sources.resolver.test_page_resolver import resolving
from tests.support.certificate import unsigned_certificate
from tests.support.fake_sites import outcome
from tests.support.media_server import MediaServer, drip, media, raw, redirect, stall
from tests.support.resolving import fake_sites, html, real_sites
from tests.support.serving import serving
from tonearm.core.failure import FailureCode
from tonearm.core.metadata import JsonObject
from tonearm.core.policy import SourcePolicy
from tonearm.sources.guard import AddressGuard
from tonearm.sources.http.client import HttpClient
from tonearm.sources.http.settings import FetchSettings
from tonearm.sources.resolver.page_requests import BadQuestion, PageRequests


class Echo:
    """A server that tells what it was sent, packs, redirects and sets cookies, as the path says."""

    def __init__(self) -> None:
        self.fetches: list[dict[str, Any]] = []
        self.outcomes: list[Any] = []
        self.seen: list[Any] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = (await request.read()).decode()
        path, query = request.path, request.query
        if path == "/api/fetches":
            return web.json_response(self.fetches)
        if path == "/api/outcomes":
            self.outcomes = json.loads(body)
            return web.Response()
        kept = ("Cookie", "Range", "Content-Type", "Accept-Encoding", "X-Mine", "Host", "Content-Length")
        headers = {name: request.headers.getall(name, None) for name in kept}
        self.seen.append([request.method, request.raw_path, headers, body])
        response = web.Response(text="Grüße", status=int(query.get("status", 200)), headers={"X-Two": "a"})
        response.headers.add("X-Two", "b")
        if "to" in query:
            response.headers["Location"] = query["to"]
        if "cookie" in query:
            response.headers["Set-Cookie"] = query["cookie"]
        if how := query.get("packed"):
            packed = {"gzip": gzip.compress(b"packed" * 1000), "deflate": zlib.compress(b"packed" * 1000)}
            response.body = packed.get(how, b"\x1f\x8bthis is no gzip")
            response.headers["Content-Encoding"] = how.replace("broken", "gzip")
        if "long" in query:
            response.body = b"0123456789" * 300_000
        return response


@pytest.fixture
async def echo() -> AsyncIterator[tuple[Echo, str]]:
    made = Echo()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    async with serving(app) as port:
        yield made, f"http://127.0.0.1:{port}"


async def test_requests_are_as_of_yt_dlps_own_handler(echo: tuple[Echo, str]) -> None:
    server, base = echo
    async with MediaServer() as gone:
        nobody = gone.url("/")
    async with MediaServer() as odd:
        short = odd.serve("/short", media(b"0123456789", ranges=False, cut_after=4))
        latin = odd.serve("/latin", raw(b"HTTP/1.1 200 OK\r\nX-Two: \xe4\r\nContent-Length: 2\r\n\r\nok"))
        to_latin = odd.serve("/to", raw(f"HTTP/1.1 302 Found\r\nLocation: {base}/".encode() + b"\xe4?x\r\n\r\n"))
        server.fetches = [
            {"url": f"{base}/a?b=c&d=%2f#fragment", "headers": {"X-Mine": "1", "Range": "bytes=2-3", "Host": "evil"}},
            {"url": f"{base}/ä ö?q=ü"},
            {"url": f"{base}/post", "data": "a=b"},
            {"url": f"{base}/post", "data": '{"a": 1}', "headers": {"Content-Type": "application/json"}},
            {"url": f"{base}/put", "data": "x", "method": "PUT"},
            {"url": f"{base}/head", "method": "HEAD"},
            *({"url": f"{base}/p?status={code}&to=/next", "data": "x"} for code in (301, 302, 303, 307, 308)),
            {"url": f"{base}/set/it?cookie=a=b&status=302&to=/set/next"},
            {"url": f"{base}/set/again?cookie=c=d;%20Path=/", "headers": {"Cookie": "e=f"}},
            {"url": f"{base}/other"},
            {"url": f"{base}/loop?status=302&to=/loop?status=302"},
            {"url": f"{base}/nowhere?status=302"},
            *({"url": f"{base}/x?packed={how}"} for how in ("gzip", "deflate", "broken", "identity")),
            *({"url": f"{base}/x?status={code}"} for code in (204, 206, 400, 403, 404, 429, 500)),
            {"url": f"{base}/long?long"},
            {"url": f"{base}/long?long", "most": 100_000},
            {"url": short},
            {"url": latin},
            {"url": to_latin},
            {"url": nobody},
            {"url": "data:text/plain;base64,aGVsbG8="},
            {"url": "ftp2://127.0.0.1/x"},
        ]
        own = yt_dlp.YoutubeDL({"proxy": "", "quiet": True, "compat_opts": {"prefer-legacy-http-handler"}})
        assert "Urllib" in _REQUEST_HANDLERS
        wanted = await asyncio.to_thread(lambda: [outcome(own, fetch) for fetch in server.fetches])
        own.close()
        wanted_seen, server.seen = server.seen, []
        async with resolving(fake_sites()) as it:
            assert (await it.failure(f"{base}/fake/fetches")).message == "The page was not resolved: told."
        assert list(zip(server.fetches, server.outcomes, strict=True)) == list(zip(server.fetches, wanted, strict=True))
        # Of another host the node names itself; the handler's own "Connection: close" is not there.
        assert [one[:2] for one in server.seen] == [one[:2] for one in wanted_seen]
        assert server.seen[1:] == wanted_seen[1:]
        assert server.seen[0][2]["Host"] == [base.removeprefix("http://")]


async def test_patterns_judge_whole_https_addresses(tmp_path: Any) -> None:
    tls = unsigned_certificate(tmp_path)
    async with (
        MediaServer() as server,
        MediaServer(tls=tls) as secure,
        resolving(real_sites(sites=("generic",), timeout_s=60.0), blocked="/secret") as it,
    ):
        server.serve("/page", redirect(secure.url("/secret?a=b")))
        server.serve("/fine", redirect(secure.url("/fine")))
        assert (await it.failure(server.url("/page"))).code is FailureCode.SOURCE_BLOCKED
        assert secure.connections == 0
        assert "certificate" in (await it.failure(server.url("/fine"))).message


async def test_a_page_asks_for_so_many_addresses_and_no_more(server: MediaServer) -> None:
    server.serve("/api/holds", media(b"x" * 300_000, ranges=False))
    server.serve("/api/floods", html(""))
    many = "asks for more addresses than it may"
    async with resolving(fake_sites()) as it:
        for what, said in {"holds?33": many, "holds?32": "held 32", "floods": many}.items():
            assert said in (await it.failure(server.url(f"/fake/{what}"))).message
        await server.connected(1)  # which the next page would use


class Asked:
    """The node's side alone, asked by hand as a process might that was taken over."""

    def __init__(self, limit_bytes: int = 1_000_000, *, private: bool = True) -> None:
        settings = FetchSettings(connect_timeout_s=2.0, headers_timeout_s=0.5, stall_timeout_s=0.2)
        self.client = HttpClient(AddressGuard(private_networks=private), SourcePolicy().admit, settings)
        self.requests = PageRequests(self.client, limit_bytes)

    async def send(self, url: str, body: bytes = b"", **question: Any) -> JsonObject:
        return (await self.requests.send({"method": "GET", "url": url, "headers": [], **question}, body)).head

    async def read(self, number: Any) -> tuple[JsonObject, bytes]:
        return await self.requests.read({"of": number, "least": 1_000_000, "most": 1_000_000})


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    made = Asked()
    async with made.requests:
        yield made
    await made.client.close()


async def test_what_is_no_question_ends_the_process(asked: Asked, server: MediaServer) -> None:
    url = server.serve("/a", media(b"x"))
    questions: tuple[dict[str, Any], ...] = (
        *({"method": method} for method in ("CONNECT", "get", "", None, "G\r\nT")),
        *({"url": other} for other in (None, 5, [url])),
        *({"headers": [pair]} for pair in (["a"], ["a", 5], ["a b", "c"], ["a", "b\r\nc: d"], ["a", "b\0"], 5)),
        {"headers": [[f"x{number}", "y" * 1000] for number in range(70)]},
    )
    for question in questions:
        with pytest.raises(BadQuestion):
            await asked.send(**{"url": url, **question})
    with pytest.raises(BadQuestion):
        await asked.send(url, b"x" * 1_100_000, method="POST")
    for number in (5, None, True, "1"):
        with pytest.raises(BadQuestion):
            await asked.read(number)
    assert server.connections == 0
    assert (await asked.send(url, closed=[1, None, "x", -5]))["status"] == 200


async def test_where_the_node_does_not_go(asked: Asked, server: MediaServer) -> None:
    strict = Asked(private=False)
    for url in ("http://127.0.0.1:{}/", "https://localhost:{}/", "http://[::ffff:127.0.0.1]:{}/", "http://0x7f.1:{}/"):
        assert (await strict.send(url.format(server.port)))["code"] == FailureCode.SOURCE_REFUSED
    for url in ("file:///etc/x", "/etc/x", "ftp://a.example/", "ytsearch:x", "http://a:b@c.example/", "http://"):
        assert (await asked.send(url))["code"] == FailureCode.SOURCE_REFUSED, url
    assert asked.requests.problem is not None
    assert server.connections == 0


async def test_bytes_and_silence_have_an_end(server: MediaServer) -> None:
    asked = Asked(100_000)
    async with asked.requests:
        silent = (server.serve("/stall", stall()), server.serve("/drip", drip(b"HTTP/1.1 200 OK\r\n" * 99, 0.1)))
        for head in await asyncio.gather(*map(asked.send, silent)):
            assert head["code"] == FailureCode.TIMEOUT
        quiet = await asked.send(server.serve("/quiet", media(b"x" * 50_000, stall_after=40_000)))
        head, _ = await asked.read(quiet["number"])
        assert head["code"] == FailureCode.TIMEOUT
        long = await asked.send(server.serve("/long", media(b"x" * 500_000)))
        code = long.get("code") or (await asked.read(long["number"]))[0]["code"]
        assert code == FailureCode.LIMIT_EXCEEDED
        assert (await asked.send(server.url("/drip")))["code"] == FailureCode.LIMIT_EXCEEDED
    await server.all_gone()
    await asked.client.close()

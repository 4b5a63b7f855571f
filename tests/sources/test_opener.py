"""Opening over HTTP: what is refused, what fails, and in which words."""

import asyncio
import dataclasses
import re
import socket
from contextlib import ExitStack, chdir
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificate import unsigned_certificate
from tests.support.environment import variables
from tests.support.fetching import IMPATIENT, QUICK, failure_of, opened, opener, opening_fails, read_all, read_bytes
from tests.support.media_server import Answer, Canary, MediaServer, in_turn, media, raw, redirect, stall, status
from tonearm.core.failure import FailureCode, Stage
from tonearm.core.source_uri import parse_source_uri

BODY = bytes(range(256)) * 40


# What a server does, what it is told as, with a status or None, words of message or hint, and how often it is asked.
FAULTS: dict[str, tuple[Answer, FailureCode, int | None, str, int]] = {
    **{
        f"status {code}": (status(code), FailureCode.HTTP_STATUS, code, word, 1)
        for code, word in {401: "login", 403: "expired", 404: "check the URI", 429: "later", 302: ""}.items()
    },
    "a passing fault that stays": (status(503), FailureCode.HTTP_STATUS, 503, "", 3),
    "no answer": (raw(b""), FailureCode.CONNECTION_LOST, None, "", 6),  # the client itself asks once more each time
    "no answer in time": (stall(), FailureCode.TIMEOUT, None, "", 1),
    "no HTTP": (raw(b"220 mail.example ESMTP\r\n"), FailureCode.CONNECT_FAILED, None, "", 1),
    "a circle that is written otherwise": (redirect("/x/../a"), FailureCode.TOO_MANY_REDIRECTS, None, "in a circle", 1),
    "a part of something else": (status(206, "Content-Range: bytes 5-9/10\r\n"), FailureCode.HTTP_STATUS, 206, "", 1),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
async def test_what_is_told_of_servers_that_fail(server: MediaServer, name: str) -> None:
    answer, code, http_status, words, times = FAULTS[name]
    told = await failure_of(server.serve("/a", answer), IMPATIENT if code is FailureCode.TIMEOUT else QUICK)
    assert (told.code, told.stage, told.http_status) == (code, Stage.CONNECT, http_status)
    assert words in told.message + told.hint
    assert len(told.message) < 400
    assert len(server.requests) == times
    assert server.replies[0].sent_bytes < 5_000_000


async def test_passing_faults_are_tried_again(server: MediaServer) -> None:
    for faults in ((status(502), status(503)), (status(504), raw(b""))):
        async with opened(server.serve("/a", in_turn(*faults, media(BODY)))) as source:
            assert await read_all(source) == BODY


async def test_nobody_listens() -> None:
    async with MediaServer() as server:
        uri = server.url("/a")
    told = await failure_of(uri)
    assert (told.code, told.stage) == (FailureCode.CONNECT_FAILED, Stage.CONNECT)
    assert "refused" in told.message.lower()


async def test_server_that_dislikes_range_requests(server: MediaServer) -> None:
    answer = in_turn(status(416), media(BODY, ranges=False))
    async with opened(server.serve("/a", answer)) as source:
        assert await read_all(source) == BODY
        assert server.ranges == ["bytes=0-", None]


async def test_certificate_that_nobody_signed(tmp_path: Path) -> None:
    async with MediaServer(tls=unsigned_certificate(tmp_path)) as server:
        told = await failure_of(server.serve("/a", media(BODY)))
        assert told.code == FailureCode.TLS
        assert "self-signed" in told.message
        assert server.requests == []


async def test_names_are_looked_up_three_times(server: MediaServer, names: "Names") -> None:
    told = await failure_of("http://nowhere.example/a", getaddrinfo=names.getaddrinfo)
    assert told.code == FailureCode.NAME_NOT_FOUND
    assert names.asked == ["nowhere.example"] * 3
    server.serve("/a", media(BODY))
    names.answers["late.example"] = [[], ["127.0.0.1"]]
    async with opened(f"http://late.example:{server.port}/a", getaddrinfo=names.getaddrinfo) as source:
        assert await read_all(source) == BODY


# ffmpeg follows 8, browsers 20, curl 50; podcasts' prefixes chain 7.
async def test_redirects_are_followed_to_the_end(server: MediaServer) -> None:
    for number in range(20):
        server.serve(f"/{number}", redirect(f"/{number + 1}", (301, 302, 303, 307, 308)[number % 5]))
    for last in (media(BODY), raw(b"ICY 200 OK\r\nicy-br: 128\r\n\r\n" + BODY)):
        server.serve("/20", last)
        async with opened(server.url("/0")) as source:
            assert await read_bytes(source, 1000) == BODY[:1000]


async def test_redirects_that_lead_nowhere(server: MediaServer) -> None:
    for last, words in ((30, "more than 20"), (2, "in a circle")):
        for number in range(last):
            server.serve(f"/{number}", redirect(f"/{number + 1}"))
        server.serve(f"/{last}", redirect("/1"))
        server.requests.clear()
        told = await failure_of(server.url("/0"))
        assert (told.code, len(server.requests)) == (FailureCode.TOO_MANY_REDIRECTS, min(last + 1, 21))
        assert words in told.message


async def test_each_redirect_is_asked_of_the_patterns(server: MediaServer) -> None:
    async with Canary() as canary:
        server.serve("/a", redirect("/b"))
        server.serve("/b", redirect(f"http://127.0.0.1:{canary.port}/secret"))
        told = await failure_of(server.url("/a"), blocked=[re.compile("/secret")])
        assert told.code == FailureCode.SOURCE_BLOCKED
        assert canary.connections == 0


async def test_after_a_cookie_and_a_redirect_a_private_network_is_as_closed_as_before(server: MediaServer) -> None:
    async with Canary("127.0.0.2") as canary:
        server.serve("/b", redirect(f"http://127.0.0.2:{canary.port}/"))
        uri = server.serve("/a", status(302, "Set-Cookie: k=1; Path=/\r\nLocation: /b\r\n"))
        told = await failure_of(uri, private_networks=False, is_public=lambda address: str(address) == server.host)
        assert (told.code, canary.connections) == (FailureCode.SOURCE_REFUSED, 0)
        assert server.requests[-1].headers["cookie"] == "k=1"


async def test_redirects_to_what_is_no_http_uri(server: MediaServer) -> None:
    for bad in ("file:///etc/x", "ftp://host/a", "http://user@127.0.0.1/", "http://[::1", "\x7f", "/" + "x" * 5000):
        told = await failure_of(server.serve("/a", redirect(bad)))
        assert told.code in (FailureCode.SOURCE_REFUSED, FailureCode.HTTP_STATUS, FailureCode.CONNECT_FAILED)


async def test_names_that_lead_into_private_networks(names: "Names") -> None:
    async with Canary() as canary:
        names.answers = {"a.example": [["127.0.0.1"]], "b.example": [["203.0.114.1", "127.0.0.1"]]}
        own = [("127.0.0.1", canary.port)]
        for host, settings in (("a", {}), ("b", {}), ("a", {"private_networks": True, "own_addresses": own})):
            options: dict[str, Any] = {"private_networks": False, "getaddrinfo": names.getaddrinfo, **settings}
            async with opener(**options) as source_opener:
                source_opener.admit(parse_source_uri("http://music.example/a"))  # which looks nothing up
                told = await opening_fails(source_opener, f"http://{host}.example:{canary.port}/")
            assert told.code == FailureCode.SOURCE_REFUSED
        assert canary.connections == 0
        assert names.asked == ["a.example", "b.example", "a.example"]


async def test_proxy_of_the_environment_is_not_used(server: MediaServer) -> None:
    async with Canary() as proxy:
        with variables(http_proxy=f"http://127.0.0.1:{proxy.port}"):
            async with opened(server.serve("/a", media(BODY))) as source:
                assert await read_all(source) == BODY
        assert proxy.connections == 0


async def test_a_host_that_accepts_no_connection() -> None:
    with ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for client in [stack.enter_context(socket.socket()) for _ in range(8)]:
            client.setblocking(False)
            client.connect_ex(full.getsockname())  # which fills it
        uri = f"http://127.0.0.1:{full.getsockname()[1]}/a"
        told = await failure_of(uri, dataclasses.replace(QUICK, connect_timeout_s=0.2))
    assert (told.code, told.stage, "connect_timeout_s" in told.hint) == (FailureCode.TIMEOUT, Stage.CONNECT, True)


async def test_one_slow_source_does_not_hold_another(server: MediaServer) -> None:
    settings = dataclasses.replace(QUICK, headers_timeout_s=60.0)
    async with opener(settings=settings) as source_opener:
        server.serve("/slow", stall())
        slow = [asyncio.create_task(source_opener.open(parse_source_uri(server.url("/slow")))) for _ in range(150)]
        await server.requested(150)
        async with opened(server.serve("/quick", media(BODY))) as source:
            assert await read_all(source) == BODY
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        await server.all_gone()


class Names:
    """Stands in for the system's name lookup. Each lookup of a name gets its next answer; the last one stays."""

    def __init__(self) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []

    def getaddrinfo(self, host: str, port: int, *args: object, **options: object) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        waiting = self.answers.get(host, [[]])
        found = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]


@pytest.fixture
def names() -> Names:
    return Names()


async def test_a_site_of_pages_that_sends_no_page_names_the_resolver_too(names: Names) -> None:
    for uri, names_resolver in (("https://www.youtube.com/watch?v=x", True), ("https://radio.example/a", False)):
        told = await failure_of(uri, getaddrinfo=names.getaddrinfo)
        assert (told.code, "resolver.enabled" in told.hint) == (FailureCode.NAME_NOT_FOUND, names_resolver)


async def test_whether_a_typed_text_is_a_file_is_asked_only_where_files_may_be(tmp_path: Path) -> None:
    music = tmp_path / "music"
    music.mkdir()
    (music / "a song").write_bytes(b"sound")
    (tmp_path / "a secret").write_bytes(b"secret")
    (music / "a link").symlink_to(tmp_path / "a secret")
    with chdir(music):
        async with opener(files=(str(music),)) as source_opener:
            for text, kind in (("a song", "uri"), ("a link", "search"), ("../a secret", "uri"), ("a\0b", "search")):
                assert (await source_opener.meaning_of(text, came_through_proxy=False)).kind == kind


async def test_links_play_though_the_folder_in_which_the_node_was_started_is_gone(tmp_path: Path) -> None:
    started_in = tmp_path / "a release that another one replaces"
    started_in.mkdir()
    with chdir(started_in):
        async with opener() as source_opener:
            started_in.rmdir()
            assert source_opener.admit(parse_source_uri("https://radio.example/a.mp3")).is_admitted
            assert source_opener.admit(parse_source_uri("a.mp3")).path == f"{started_in}/a.mp3"

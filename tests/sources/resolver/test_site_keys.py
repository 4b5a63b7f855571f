"""What a rented server needs for pages: cookies, arguments of extractors, proxies. The rules, and whole openings."""

import contextlib
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificate import unsigned_certificate
from tests.support.fetching import body_of, opener, opening_fails
from tests.support.http_proxy import HttpProxy
from tests.support.media_server import MediaServer, media
from tests.support.resolving import fake_sites, told
from tonearm.core.failure import FailureCode
from tonearm.sources.opener import SourceOpener
from tonearm.sources.resolver.pages import ResolverSetupError
from tonearm.sources.resolver.site_keys import CookiesFile, CookiesProblem, Proxies, SiteKeys

BODY = bytes(range(256)) * 1000
HEAD = "# Netscape HTTP Cookie File\n"


def cookie(name: str, value: str, host: str = "127.0.0.1") -> str:
    return f"{host}\tFALSE\t/\tFALSE\t0\t{name}\t{value}\n"


@contextlib.asynccontextmanager
async def opening_with(**keys: Any) -> AsyncIterator[SourceOpener]:
    async with opener(resolver=fake_sites(keys=SiteKeys(**keys))) as opening:
        await opening.start()
        yield opening


FORM = "is no file of cookies in Netscape's form"
NO_COOKIES = {
    "": FORM,
    '{"cookies": []}': FORM,
    HEAD + "127.0.0.1 FALSE / FALSE 0 a b\n": "has no cookie in line 2: a cookie has 7 fields",
    HEAD + "\n# a note\n" + cookie("a", "b") + "x\n": "has no cookie in line 5",
    HEAD + cookie("a", "x" * 1024 * 1024): "has more than 1024 KiB",
}


async def test_what_a_file_of_cookies_is(tmp_path: Path) -> None:
    path = tmp_path / "cookies.txt"
    with pytest.raises(ResolverSetupError, match=f"resolver.cookies_file: {path} cannot be read: No such file"):
        async with opening_with(cookies_file=path):
            pass
    for text, problem in NO_COOKIES.items():
        path.write_text(text)
        with pytest.raises(CookiesProblem, match=problem) as caught:
            CookiesFile(path).require()
        assert "\t" not in str(caught.value)
    for text in (HEAD, HEAD + "\n# a note\n" + cookie("a", "") + "#HttpOnly_" + cookie("b", "c")):
        path.write_text(text)
        CookiesFile(path).require()


async def test_cookies_go_to_their_site_and_are_read_anew(
    server: MediaServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "cookies.txt"
    path.write_text(HEAD + cookie("id", "hush-1") + cookie("id", "hush-2", "a.example"))
    path.chmod(0o640)
    before = path.read_text()
    server.serve("/api/told", told(server.serve("/song.mp3", media(BODY))))
    caplog.set_level(logging.DEBUG, "tonearm")

    def sent() -> str | None:
        return [request for request in server.requests if request.path == "/api/told"][-1].headers.get("cookie")

    async with opening_with(cookies_file=path) as opening:
        (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert f"other users of this machine can read {path}" in warning.getMessage()
        assert (await body_of(opening, server.url("/fake/keys")))[0] == BODY
        assert sent() == "id=hush-1"
        path.write_text(HEAD + cookie("id", "hush-other"))
        await body_of(opening, server.url("/fake/keys"))
        assert sent() == "id=hush-other"
        for _ in range(2):  # the cookies of before, and one warning
            path.write_text("broken")
            os.utime(path, ns=(1, 1))
            await body_of(opening, server.url("/fake/keys"))
            assert sent() == "id=hush-other"
        assert caplog.text.count("the previous cookies are used") == 1
        path.write_text(before)
        await body_of(opening, server.url("/fake/keys"))
        assert sent() == "id=hush-1"
    assert path.read_text() == before
    assert "hush" not in caplog.text


async def test_arguments_reach_their_extractor(server: MediaServer) -> None:
    server.serve("/api/told", told(server.serve("/song.mp3", media(BODY))))
    arguments = {"fake": {"token": ("Ab", "c")}, "youtubepot-any": {"a": ("b",)}}
    async with opening_with(extractor_args=arguments) as opening:
        _, source = await body_of(opening, server.url("/fake/keys"))
        assert source.page is not None
        assert source.page.title == "Ab c"
    with pytest.raises(ResolverSetupError, match=r"resolver\.extractor_args: yt-dlp has no extractor 'fakes'"):
        async with opening_with(extractor_args={"fakes": {"token": ("hush",)}}):
            pass


def test_proxies_take_turns_and_one_that_fails_rests(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    proxies = Proxies(["a", "b", "c"], lambda: now_s)
    assert [proxies.next() for _ in range(4)] == ["a", "b", "c", "a"]
    proxies.failed("b", "The proxy b failed.")
    proxies.failed("b", "The proxy b failed.")
    assert [proxies.next() for _ in range(3)] == ["c", "a", "c"]
    assert caplog.text.count("The proxy b failed. It is not used for 60 s.") == 1
    now_s = 1.0
    proxies.failed("a", "")
    proxies.failed("c", "")
    assert proxies.next() == "b"  # all rest: the one that rests longest
    now_s = 60.5
    assert [proxies.next() for _ in range(2)] == ["b", "b"]
    now_s = 61.0
    assert {proxies.next() for _ in range(3)} == {"a", "b", "c"}


async def test_pages_and_their_media_go_through_a_proxy_and_direct_links_do_not(
    server: MediaServer, caplog: pytest.LogCaptureFixture
) -> None:
    song = server.serve("/song.mp3", media(BODY, cut_after=70_000))
    server.serve("/api/told", told(song))
    caplog.set_level(logging.DEBUG)
    async with HttpProxy(login="me:hush") as proxy, opening_with(proxies=(proxy.url,)) as opening:
        assert (await body_of(opening, song))[0] == BODY
        assert proxy.asked == []
        assert (await body_of(opening, server.url("/fake/told")))[0] == BODY
        assert proxy.asked[:2] == [server.url("/api/told"), song]
        assert set(proxy.asked) == {server.url("/api/told"), song}
    assert "hush" not in caplog.text


async def test_https_goes_through_a_tunnel_and_certificates_are_checked(server: MediaServer, tmp_path: Path) -> None:
    async with (
        MediaServer(tls=unsigned_certificate(tmp_path)) as secure,
        HttpProxy() as proxy,
        opening_with(proxies=(proxy.url,)) as opening,
    ):
        server.serve("/api/told", told(secure.serve("/song.mp3", media(BODY))))
        assert (await opening_fails(opening, server.url("/fake/told"))).code is FailureCode.TLS
        assert proxy.asked[-1] == secure.url("").removeprefix("https://")
        assert secure.requests == []


async def test_a_proxy_that_fails_is_passed_over(server: MediaServer, caplog: pytest.LogCaptureFixture) -> None:
    server.serve("/api/told", told(server.serve("/song.mp3", media(BODY))))
    page = server.url("/fake/told")
    async with HttpProxy() as good, HttpProxy(refuses_with=407) as bad:
        dead_url = "http://me:hush@127.0.0.1:9"  # nobody listens there
        async with opening_with(proxies=(dead_url, bad.url, good.url)) as opening:
            for _ in range(2):
                assert (await body_of(opening, page))[0] == BODY
            assert len(bad.asked) == 1
        assert caplog.text.count("It is not used for 60 s.") == 2
        async with opening_with(proxies=(bad.url, dead_url)) as opening:
            failure = await opening_fails(opening, page)
        assert failure.message.startswith("The page was not resolved: The proxy 127.0.0.1:")
        assert "resolver.proxies" in failure.hint
    assert "hush" not in caplog.text + failure.message


async def test_no_proxy_leads_where_the_node_must_not_go(server: MediaServer) -> None:
    server.serve("/api/told", told("http://private.example/song.mp3"))

    def private(host: str, port: int, *_: object, **__: object) -> Any:
        return [(2, 1, 6, "", ("10.0.0.1" if host == "private.example" else host, port))]

    async with HttpProxy() as proxy:
        settings = fake_sites(keys=SiteKeys(proxies=(proxy.url,)))
        network: dict[str, Any] = {"is_public": lambda ip: str(ip) == "127.0.0.1", "getaddrinfo": private}
        async with opener(resolver=settings, private_networks=False, **network) as opening:
            failure = await opening_fails(opening, server.url("/fake/told"))
            assert failure.code is FailureCode.SOURCE_REFUSED
            assert proxy.asked == [server.url("/api/told")]

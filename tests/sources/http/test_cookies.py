"""Cookies that a server sets while a source is opened: what goes back to it, and to nobody else."""

import pytest

from tests.support.fetching import body_of, opened, opener, read_all, read_bytes
from tests.support.media_server import Answer, MediaServer, Reply, Request, in_turn, media, raw, redirect, status

BODY = bytes(range(256)) * 40

# What `/auth/in` sets on its way to a path, and what that is asked with. The reasons are from RFC 6265, by which curl
# and ffmpeg go, too, but for hosts: a cookie is never for a neighbour, whatever the server says.
SET: dict[str, tuple[list[str], str, str | None]] = {
    "the whole host": (["a=1; Path=/"], "/x", "a=1"),
    "5.1.4, without a path": (["a=1"], "/auth/x", "a=1"),
    "5.1.4, a path": (["a=1; path=/music"], "/music/x", "a=1"),
    "5.2.5, only over TLS": (["a=1; Path=/; Secure"], "/x", None),
    "5.2.1, over by date": (["a=1; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], "/x", None),
    "5.2.1, no date": (["a=1; Path=/; Expires=soon"], "/x", "a=1"),
    "5.2.1, a date to come": (["a=1; Path=/; Expires=Wed, 01-Jan-2138 00:00:00 GMT"], "/x", "a=1"),
    "5.2, a value with signs": (['a="b c=d,e"; Path=/'], "/x", 'a="b c=d,e"'),
    "5.3, taken back": (["a=1; Path=/", "a=; Path=/; Max-Age=0"], "/x", None),
    "5.4, the longer path counts": (["a=2; Path=/music", "a=1; Path=/"], "/music/x", "a=2"),
    "6.1, too many": ([f"a{n}=1; Path=/" for n in range(60)], "/x", "; ".join(f"a{n}=1" for n in range(50))),
    "too much": ([f"{n}={'x' * 4000}; Path=/" for n in "abcdef"], "/x", "; ".join(f"{n}={'x' * 4000}" for n in "abcd")),
    "no ASCII": (["a=ä; Path=/"], "/x", None),
}  # fmt: skip


@pytest.mark.parametrize("name", SET)
async def test_what_goes_back(server: MediaServer, name: str) -> None:
    cookies, path, sent = SET[name]
    lines = "".join(f"Set-Cookie: {cookie}\r\n" for cookie in cookies)
    server.serve(path, media(BODY))
    head = f"HTTP/1.1 302 Found\r\n{lines}Location: {path}\r\nContent-Length: 0\r\n\r\n"
    async with opened(server.serve("/auth/in", raw(head.encode()))) as source:
        assert await read_all(source) == BODY
    assert _cookies(server) == [None, sent]


def _cookies(server: MediaServer) -> list[str | None]:
    return [request.headers.get("cookie") for request in server.requests]


def _only_with(cookie: str, answer: Answer) -> Answer:
    """Who comes without the cookie gets it, and is sent to where it is looked for, as curl and browsers go."""

    async def wall(request: Request, reply: Reply) -> None:
        if request.headers.get("cookie") != cookie:
            await status(302, f"Set-Cookie: {cookie}; Path=/\r\nLocation: /check\r\n")(request, reply)
        else:
            await answer(request, reply)

    return wall


async def test_every_request_of_a_source_has_them_and_no_other_source(server: MediaServer) -> None:
    big = BODY * 100
    server.serve("/check", redirect("/a"))
    uri = server.serve("/a", _only_with("k=1", in_turn(media(big, cut_after=500_000), media(big))))
    async with opener() as source_opener:
        for _ in range(2):
            assert (await body_of(source_opener, uri))[0] == big
    assert _cookies(server) == [None, "k=1", "k=1", "k=1", None, "k=1", "k=1"]
    assert [request.path for request in server.requests[:3]] == ["/a", "/check", "/a"]


async def test_segments_of_a_stream_are_part_of_the_source(server: MediaServer) -> None:
    server.serve("/one.mp3", media(BODY, headers="Set-Cookie: s=2; Path=/\r\n"))
    server.serve("/two.mp3", media(BODY))
    text = b"#EXTM3U\n#EXTINF:9,\none.mp3\n#EXTINF:9,\ntwo.mp3\n#EXT-X-TARGETDURATION:9\n#EXT-X-ENDLIST\n"
    async with opened(server.serve("/list", media(text, headers="Set-Cookie: k=1\r\n"))) as source:
        assert await read_bytes(source, len(BODY)) == BODY
        await server.requested(3)
    assert _cookies(server) == [None, "k=1", "k=1; s=2"]


async def test_no_other_host_gets_them(server: MediaServer) -> None:
    async with MediaServer(host="127.0.0.2") as other:
        there = other.serve("/a", media(BODY))
        for domain in ("", "; Domain=127.0.0.2", "; Domain=0.0.2"):
            go = server.serve("/go", status(302, f"Set-Cookie: k=1; Path=/{domain}\r\nLocation: {there}\r\n"))
            async with opened(go) as source:
                assert await read_all(source) == BODY
        assert _cookies(other) == [None] * 3

"""The public address of a running node: what strangers reach there, and that they reach nothing else."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from tests.support.audio_files import tone, wav
from tests.support.eventually import eventually
from tests.support.http_client import WEBSOCKET_HEADERS, connected
from tests.support.pictures import flac_with, png
from tests.support.public_address import PublicNode, public_config, watching
from tests.support.running_node import shared_node
from tonearm.protocol.framing import CloseCode

OWNER = (("Authorization", "sesame"),)
ORIGIN = (("Origin", "https://elsewhere.example"), ("Sec-Fetch-Site", "cross-site"))


@pytest.fixture(scope="module")
def shared_public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicNode]:
    with shared_node(tmp_path_factory.mktemp("public"), public_config()) as node:
        yield PublicNode(node)


@pytest_asyncio.fixture
async def public(shared_public: PublicNode) -> AsyncIterator[PublicNode]:
    """With songs in its folder, and without players."""
    folder = shared_public.node.folder
    (folder / "Secret Folder Song.wav").write_bytes(wav(tone(440, 20.0)))
    (folder / "cover.flac").write_bytes(flac_with(tone(440, 20.0), png()))
    yield shared_public
    await shared_public.node.forget_all(OWNER)


async def owner(public: PublicNode, method: str, path: str, body: object = None) -> None:
    answer = await public.node.request(method, f"/v0/players{path}", body, headers=OWNER)
    assert answer.status in (201, 204), answer.body


async def create(public: PublicNode, player: str, uri: str = "Secret Folder Song.wav", **more: object) -> None:
    await owner(public, "POST", "", {"id": player, "uri": uri, **more})


async def beginning(public: PublicNode, target: str, count: int, headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    """The first bytes of a stream's body, as it is sent; its head was a good one."""
    async with connected(public.port) as connection:
        connection.send_request("GET", target, headers)
        head = await connection.read_head()
        assert head.status == 200, head
        assert head.header("Access-Control-Allow-Origin") == "*"
        return await connection.reader.readexactly(count)


NOT_THERE = (
    "/hidden.mp3", "/hidden.ogg", "/hidden/events", "/hidden/artwork", "/nobody.mp3", "/nobody/events",
    "/club-9.mp3", "/nobody/artwork", "/xradio.mp3", "/radiox.mp3", "/radio", "/radio/", "/radio.flac", "/radio.",
    "/.mp3", "//radio.mp3", "/radio.mp3/", "/radio/ws", "/radio/stream.mp3", "/radio/queue", "/radio/filters",
    "/radio/../hidden.mp3", "/..%2fhidden.mp3", "/v0/players", "/v0/players/radio", "/v0/players/radio/ws",
    "/v0/players/radio/stream.mp3", "/v0/players/radio/events", "/v0/events", "/v0/stats", "/metrics", "/healthz",
    "/readyz", "/info", "/version", "/v0/loadtracks?identifier=x.mp3", "/index.html", "/listen.py", "/public.py",
    "/listen.js/", "/%00.mp3", "/radio%00.mp3", "/RADIO.mp3",
)  # fmt: skip


async def test_what_is_there_and_that_nothing_else_is(public: PublicNode) -> None:
    for player in ("radio", "club-1", "club-.mp3", "hidden"):
        await create(public, player)
    kinds = (("wav", b"RIFF", "audio/wav"), ("ogg", b"OggS", "audio/ogg"), ("mp3", b"\xff\xfb", "audio/mpeg"))
    for kind, begin, media_type in kinds:
        for player in ("radio", "club-1", "club-.mp3", "%72adio"):
            assert begin in await beginning(public, f"/{player}.{kind}", 100)
        head = await public.ask(f"/radio.{kind}", "HEAD")
        assert (head.status, head.header("Content-Type")) == (200, media_type)
        assert head.header("icy-name")
        assert "icy-name" in str(head.header("Access-Control-Expose-Headers"))

    told, names = set(), set()
    for target in NOT_THERE:
        for headers in ((), OWNER, WEBSOCKET_HEADERS):
            answer = await public.ask(target, headers=headers)
            assert answer.status == 404, target
            assert answer.header("Access-Control-Allow-Origin") == "*"
            said = answer.json()
            assert said.pop("path") == target.partition("?")[0]
            told.add(json.dumps({**said, "timestamp": 0, "requestId": ""}))
            names |= {name.lower() for name, _ in answer.headers}
    assert len(told) == 1  # nobody learns what exists
    allowed = {"access-control-allow-origin", "access-control-expose-headers"}
    assert names <= {"content-type", "content-length", "date", "server", *allowed}

    for method in ("POST", "PUT", "PATCH", "DELETE", "TRACE"):
        for target in ("/radio.mp3", "/hidden.mp3", "/v0/players", "/v0/players/radio", "/"):
            answer = await public.ask(target, method, OWNER, b"{}")
            assert (answer.status, answer.header("Allow")) == (405, "GET, HEAD, OPTIONS")
    assert len((await public.node.request("GET", "/v0/players", headers=OWNER)).json()) == 4

    # Pages of other sites may listen. The node itself may not.
    for target in ("/radio.mp3", "/hidden.mp3"):
        preflight = await public.ask(target, "OPTIONS", (*ORIGIN, ("Access-Control-Request-Method", "GET")))
        assert (preflight.status, preflight.body) == (204, b"")
        assert preflight.header("Access-Control-Allow-Origin") == "*"
        assert preflight.header("Access-Control-Allow-Headers") == "*"
        assert preflight.header("Access-Control-Allow-Methods") == "GET, HEAD, OPTIONS"
    assert b"StreamTitle='" in await beginning(public, "/radio.mp3", 20_000, (*ORIGIN, ("Icy-MetaData", "1")))
    assert (await public.ask("/radio/events", headers=(*ORIGIN, *WEBSOCKET_HEADERS))).status == 101
    new = {"id": "loop", "uri": f"http://127.0.0.1:{public.port}/radio.mp3"}
    answer = await public.node.request("POST", "/v0/players", new, headers=OWNER)
    assert (answer.status, answer.json()["code"]) == (403, "source_refused")
    assert "own address" in answer.json()["message"]


async def test_no_stranger_has_more_encoders_started_or_longer_buffers_kept(public: PublicNode) -> None:
    async with AsyncExitStack() as stack:
        await create(public, "radio")
        for query in ("?bitrate=32000", "?bitrate=320000&burst=10000", "?bitrate=64000", "?bitrate=x", "?burst=%ff"):
            listener = await stack.enter_async_context(connected(public.port))
            listener.send_request("GET", f"/radio.mp3{query}")
            head = await listener.read_head()
            assert (head.status, head.header("icy-br")) == (200, "128")
        # Of three that a player may have, one is theirs: its owner may still ask for two others.
        for bitrate, status in ((32_000, 200), (64_000, 200), (96_000, 429)):
            owned = await stack.enter_async_context(connected(public.node.port))
            owned.send_request("GET", f"/v0/players/radio/stream.mp3?bitrate={bitrate}", OWNER)
            assert (await owned.read_head()).status == status


EVENT_FIELDS = {"id", "state", "paused", "title", "author", "position", "positionRate", "length", "artwork"}


async def test_a_listener_starts_the_clock_and_events_tell_title_state_and_position_only(public: PublicNode) -> None:
    logged = len(public.node.log)
    await create(public, "radio", metadata={"token": "hush-hush"})
    async with watching(public, "radio") as window:
        first = await window.state()
        assert set(first) == EVENT_FIELDS
        assert (first["state"], first["title"]) == ("loading", "Secret Folder Song")
        async with connected(public.port) as listener:
            listener.send_request("GET", "/radio.mp3")
            await window.state(state="playing", paused=False)
            await owner(public, "POST", "/radio/queue", {"uri": "cover.flac", "metadata": "hush-hush"})
            await owner(public, "PATCH", "/radio/metadata", {"value": {"name": "hush-hush"}})
            await owner(public, "PATCH", "/radio/position", {"position": 15_000})
            while (await window.state())["position"] < 15_000:
                pass
            await owner(public, "POST", "/radio/pause")
            await window.state(paused=True)
            await owner(public, "POST", "/radio/skip")
            await owner(public, "POST", "/radio/play")
            await window.state(title="cover", artwork=True, state="playing")
        await owner(public, "DELETE", "/radio")
        frame = await window.connection.read_frame()
        while frame.opcode == 1:
            frame = await window.connection.read_frame()
        assert frame.close_code() == CloseCode.DELETED
    told = "".join(window.texts)
    assert "hush" not in told
    assert str(public.node.folder) not in told
    assert ".wav" not in told
    # No stranger can fill the log.
    assert not [line for line in public.node.log[logged:] if "a listener came" in line]


async def test_artwork_is_shown_where_there_is_one_and_not_tried_again_for_strangers(public: PublicNode) -> None:
    await create(public, "club-2")
    for player in ("club-1", "hidden", "radio"):
        await create(public, player, "cover.flac")

    async def is_opened() -> bool:
        return (await public.ask("/club-1/artwork")).status == 200

    await eventually(is_opened, "the file is opened")
    picture = await public.ask("/club-1/artwork?1")
    assert (picture.status, picture.header("Content-Type"), picture.body) == (200, "image/png", png())
    known = await public.ask("/club-1/artwork", headers=(("If-None-Match", str(picture.header("ETag"))),))
    assert known.status == 304
    for target in ("/club-2/artwork", "/hidden/artwork"):
        assert (await public.ask(target)).json()["code"] == "not_found"

    async with watching(public, "radio") as window, connected(public.port) as listener:
        listener.send_request("GET", "/radio.mp3")
        await window.state(artwork=True)
    file, away = public.node.folder / "cover.flac", public.node.folder / "away.flac"
    file.rename(away)
    assert (await public.ask("/radio/artwork")).status == 404
    away.rename(file)
    assert (await public.node.request("GET", "/v0/players/radio/artwork", headers=OWNER)).status == 200
    assert (await public.ask("/radio/artwork")).status == 404


async def test_the_page_lists_the_players_and_takes_nothing_from_elsewhere(public: PublicNode) -> None:
    assert "Nothing is on air" in (await public.ask("/")).body.decode()
    await create(public, "club:1")  # not listed: it does not begin with club-
    await create(public, "radio", "cover.flac", metadata={"station": {"name": "<script>alert(1)</script>"}})
    await create(public, "club-a:b")

    async def shown() -> bool:
        return 'src="./radio/artwork"' in (await public.ask("/")).body.decode()

    await eventually(shown, "the page is made again")
    answer = await public.ask("/")
    text, policy = answer.body.decode(), str(answer.header("Content-Security-Policy"))

    def found(tag: str, attribute: str) -> list[str]:
        return re.findall(rf'<{tag}\b[^>]*\b{attribute}="([^"]*)"', text)

    assert policy.startswith("default-src 'self'")
    assert "unsafe" not in policy
    assert answer.header("Content-Type") == "text/html; charset=utf-8"
    assert found("audio", "src") == ["./radio.mp3", "./club-a:b.mp3"]  # listens without any script
    assert found("article", "data-player") == ["radio", "club-a:b"]
    assert "<script>alert" not in text
    for shown_text in ("&lt;script&gt;alert(1)&lt;/script&gt;", "Secret Folder Song"):
        assert shown_text in text
    assert "club:1" not in text
    # No script or style within the page, which its policy would refuse, and every address leads somewhere here.
    assert found("script", "src") == ["listen.js"]
    assert text.count("<script") == 1
    assert not re.findall(r"<[^>]*\s(?:style|on\w+)=", text)
    links = [*found("link", "href"), *found("script", "src"), *found("a", "href"), *found("img", "src")]
    assert len(links) == 1 + 1 + 6 + 1
    for link in (*links, *found("audio", "src")):
        assert re.fullmatch(r"(\./)?[\w:.-]+(/artwork)?", link)
        assert (await public.ask(f"/{link.removeprefix('./')}", "HEAD")).status == 200
    script = await public.ask("/listen.js")
    assert script.header("Content-Type") == "text/javascript; charset=utf-8"
    assert not re.search(rb"https?:", script.body)

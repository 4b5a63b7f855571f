"""The picture inside of the current file, over HTTP, as a page would show it."""

import asyncio
import os
import signal
from collections.abc import Callable
from functools import cache
from urllib.parse import quote

import pytest

from tests.support.audio_files import Signal, mp3, music, opus, wav
from tests.support.e2e_players import until_state
from tests.support.eventually import eventually
from tests.support.http_client import Answer, websocket
from tests.support.media_server import MediaServer, Request, media, once_set
from tests.support.pictures import JPEG, SVG, flac_with, m4a_with, mp3_with, opus_with, png
from tests.support.radio_server import radio
from tests.support.running_node import RunningNode

LARGE = png(filler=3_000_000)


@cache
def sound() -> Signal:
    return music(2.0)


@cache
def sound_44k() -> Signal:
    return music(2.0, 44_100)


async def play(node: RunningNode, uri: str) -> None:
    """Player `p` plays this, and nothing of what it played before is left."""
    await node.request("DELETE", "/v0/players/p")
    assert (await node.request("POST", "/v0/players", {"id": "p", "uri": uri, "paused": True})).status == 201


async def artwork(node: RunningNode, known: str | None = None) -> Answer:
    headers = () if known is None else (("If-None-Match", known),)
    return await node.request("GET", "/v0/players/p/artwork", headers=headers)


def message_of_none(answer: Answer) -> str:
    assert (answer.status, answer.json()["code"]) == (404, "no_artwork")
    message: str = answer.json()["message"]
    return message


async def require_none(node: RunningNode, uri: str, words: str) -> None:
    """There is none, and the reason has these words, if it is asked for before the player has opened the file itself:
    then there is just no picture, or no track any more. Who comes first is up to the machine."""

    async def is_told() -> bool:
        await play(node, uri)
        return words in message_of_none(await artwork(node))

    await eventually(is_told, f"{words!r} of {uri}")


@pytest.mark.parametrize(
    ("name", "make", "picture", "media_type"),
    [
        ("a.opus", lambda: opus_with(sound(), png(60)), png(60), "image/png"),
        ("b.m4a", lambda: m4a_with(sound_44k(), JPEG, kind=13), JPEG, "image/jpeg"),
        ("wrongly-named.flac", lambda: flac_with(sound(), JPEG), JPEG, "image/jpeg"),
        ("large.flac", lambda: flac_with(sound(), LARGE), LARGE, "image/png"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_the_picture_of_a_file(
    node: RunningNode, name: str, make: Callable[[], bytes], picture: bytes, media_type: str
) -> None:
    (node.folder / name).write_bytes(make())
    await play(node, name)
    answer = await artwork(node)
    assert (answer.status, answer.header("content-type")) == (200, media_type)
    assert answer.body == picture
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("content-security-policy") == "default-src 'none'; sandbox"


async def test_who_has_it_is_not_sent_it_again(node: RunningNode) -> None:
    (node.folder / "a.flac").write_bytes(flac_with(sound(), png()))
    (node.folder / "b.flac").write_bytes(flac_with(sound(), JPEG))
    await play(node, "a.flac")
    first = await artwork(node)
    etag = first.header("etag")
    assert first.header("cache-control") == "private, no-cache"
    for known in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        again = await artwork(node, known)
        assert (again.status, again.body, again.header("etag")) == (304, b"", etag)
    assert (await artwork(node, '"x"')).status == 200
    await play(node, "b.flac")
    other = await artwork(node, etag)
    assert (other.status, other.body) == (200, JPEG)


async def test_what_has_none_or_must_not_be_shown(node: RunningNode) -> None:
    for name, content, words in (
        ("plain.wav", wav(sound()), "no picture"),
        ("plain.opus", opus(sound()), "no picture"),
        ("svg.flac", flac_with(sound(), SVG, "image/svg+xml"), "JPEG, PNG, WebP or GIF"),
        ("page.flac", flac_with(sound(), b"<html><script>alert(1)</script></html>"), "JPEG, PNG, WebP or GIF"),
        ("huge.flac", flac_with(sound(), png(filler=9_000_000)), "8 MiB"),
        ("junk.mp3", bytes(10_000), ""),
    ):
        (node.folder / name).write_bytes(content)
        await require_none(node, name, words)
    await require_none(node, "missing.flac", "no such file")
    unknown = await node.request("GET", "/v0/players/nobody/artwork")
    assert (unknown.status, unknown.json()["code"]) == (404, "player_not_found")


async def test_of_links_and_not_of_live_streams(node: RunningNode) -> None:
    async with MediaServer() as server:
        await play(node, server.serve("/a.mp3", media(mp3_with(sound_44k(), png()))))
        assert (await artwork(node)).body == png()
        await play(node, server.serve("/live", radio(mp3(sound_44k()))))
        await node.request("POST", "/v0/players/p/play")
        async with websocket(node.port, "/v0/players/p/ws"):
            await until_state(node, "p", lambda state: state["state"] == "playing")
            before = len(server.requests)
            assert "live" in message_of_none(await artwork(node))
        assert len(server.requests) == before
        await node.request("DELETE", "/v0/players/p")


async def test_many_ask_at_once_and_some_go_away(node: RunningNode) -> None:
    go = asyncio.Event()
    content = media(mp3_with(sound_44k(), png(filler=100_000)))
    async with MediaServer() as server:
        await play(node, server.serve("/a.mp3", once_set(go, content)))
        await server.requested(1)  # that of the player
        asking = [asyncio.create_task(artwork(node)) for _ in range(5)]
        await asyncio.sleep(0.2)  # they are connected, and wait for the player's opening: it may be a live stream
        asking[0].cancel()
        go.set()
        answers = await asyncio.gather(*asking[1:])
        assert {answer.body for answer in answers} == {png(filler=100_000)}
        assert len(openings(server)) == 2


def openings(server: MediaServer) -> list[Request]:
    """The requests from the file's beginning."""
    return [request for request in server.requests if request.range in (None, "bytes=0-")]


async def test_the_process_that_reads_it_may_die(node: RunningNode) -> None:
    (node.folder / "a.flac").write_bytes(flac_with(sound(), png()))
    (node.folder / "b.flac").write_bytes(flac_with(sound(), JPEG))
    await play(node, "a.flac")
    before = node.decoder_pids()
    assert (await artwork(node)).body == png()
    for pid in node.decoder_pids() - before:
        os.kill(pid, signal.SIGKILL)
    await play(node, quote("b.flac"))
    assert (await artwork(node)).body == JPEG

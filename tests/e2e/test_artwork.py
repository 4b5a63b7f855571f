"""The picture inside of the current file, over HTTP, as a page would show it."""

from tests.support.audio_files import mp3, music, wav
from tests.support.e2e_players import refusal
from tests.support.http_client import Answer
from tests.support.media_server import MediaServer, media
from tests.support.pictures import JPEG, SVG, flac_with, mp3_with, opus_with, png
from tests.support.radio_server import radio
from tests.support.running_node import RunningNode

SOUND = music(0.5)
LARGE = png(filler=3_000_000)


async def play(node: RunningNode, uri: str) -> None:
    """Player `p` plays this, and nothing of what it played before is left."""
    await node.request("DELETE", "/v0/players/p")
    assert (await node.request("POST", "/v0/players", {"id": "p", "uri": uri, "paused": True})).status == 201


async def artwork(node: RunningNode, known: str | None = None) -> Answer:
    headers = () if known is None else (("If-None-Match", known),)
    return await node.request("GET", "/v0/players/p/artwork", headers=headers)


async def test_the_picture_of_a_file(node: RunningNode) -> None:
    for name, content, picture, media_type in (
        ("a.opus", opus_with(SOUND, png(60)), png(60), "image/png"),
        ("large.flac", flac_with(SOUND, LARGE), LARGE, "image/png"),
        ("b.flac", flac_with(SOUND, JPEG), JPEG, "image/jpeg"),
    ):
        (node.folder / name).write_bytes(content)
        await play(node, name)
        answer = await artwork(node)
        assert (answer.status, answer.header("content-type")) == (200, media_type)
        assert answer.body == picture
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("content-security-policy") == "default-src 'none'; sandbox"
        assert answer.header("cache-control") == "private, no-cache"
    # Who has it is not sent it again, and gets another one.
    etag = answer.header("etag")
    for known in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        again = await artwork(node, known)
        assert (again.status, again.body, again.header("etag")) == (304, b"", etag)
    await play(node, "a.opus")
    other = await artwork(node, etag)
    assert (other.status, other.body) == (200, png(60))


async def test_of_links_and_nothing_that_must_not_be_shown(node: RunningNode) -> None:
    for name, content in (
        ("plain.wav", wav(SOUND)),
        ("svg.flac", flac_with(SOUND, SVG, "image/svg+xml")),
        ("page.flac", flac_with(SOUND, b"<html><script>alert(1)</script></html>")),
        ("huge.flac", flac_with(SOUND, png(filler=9_000_000))),
    ):
        (node.folder / name).write_bytes(content)
    async with MediaServer() as server:
        await play(node, server.serve("/a.mp3", media(mp3_with(music(1.0, 44_100), png()))))
        assert (await artwork(node)).body == png()
        live = server.serve("/live", radio(mp3(music(1.0, 44_100))))
        for uri in ("plain.wav", "svg.flac", "page.flac", "huge.flac", "missing.flac", live):
            await play(node, uri)
            assert refusal(await artwork(node)) == (404, "no_artwork")

"""The picture inside of the current file, over HTTP, as a page would show it."""

from tests.support.audio_files import mp3, music, wav
from tests.support.eventually import eventually
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


async def test_what_has_none_or_must_not_be_shown(node: RunningNode) -> None:
    for name, content, words in (
        ("plain.wav", wav(SOUND), "no picture"),
        ("svg.flac", flac_with(SOUND, SVG, "image/svg+xml"), "JPEG, PNG, WebP or GIF"),
        ("page.flac", flac_with(SOUND, b"<html><script>alert(1)</script></html>"), "JPEG, PNG, WebP or GIF"),
        ("huge.flac", flac_with(SOUND, png(filler=9_000_000)), "8 MiB"),
    ):
        (node.folder / name).write_bytes(content)
        await require_none(node, name, words)
    await require_none(node, "missing.flac", "no such file")
    async with MediaServer() as server:
        await play(node, server.serve("/a.mp3", media(mp3_with(music(1.0, 44_100), png()))))
        assert (await artwork(node)).body == png()
        await require_none(node, server.serve("/live", radio(mp3(music(1.0, 44_100)))), "live")

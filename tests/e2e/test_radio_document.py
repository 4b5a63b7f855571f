"""What docs/radio.md promises, done as its readers do it. Only the ports are others."""

import re
from pathlib import Path

import aiohttp

from tests.support.audio_files import tone, wav
from tests.support.missing_programs import needs
from tests.support.pasting import pasted
from tests.support.public_address import started_public, watching
from tests.support.readme import REPOSITORY, blocks

DOCUMENT = (REPOSITORY / "docs" / "radio.md").read_text(encoding="utf-8")
(CONFIG,) = blocks("toml", DOCUMENT)
(PAGE,) = blocks("html", DOCUMENT)
CREATE, CONTROL, REFUSED = blocks("sh", DOCUMENT)


@needs("curl")
async def test_the_radio_is_on_air(tmp_path: Path) -> None:
    (tmp_path / "music").mkdir()
    for name in ("one", "two", "news", "jingle"):
        (tmp_path / "music" / f"{name}.wav").write_bytes(wav(tone(440, 3.0)))
    async with started_public(tmp_path, CONFIG.replace("port = 2335", "port = 0")) as public:
        here = {"127.0.0.1:2333": f"127.0.0.1:{public.node.port}", "127.0.0.1:2335": f"127.0.0.1:{public.port}"}

        async def paste(text: str) -> list[int]:
            return (await pasted(text, tmp_path, here=here, before=[CREATE]))[0]

        assert await paste(CREATE) == [201]
        page = (await public.ask("/")).body.decode()
        assert 'src="./radio.mp3"' in page
        assert "Attic Radio" in page
        shown = PAGE.replace("127.0.0.1:2335", here["127.0.0.1:2335"])
        (audio,) = re.findall(r'src="([^"]+)"', shown)
        (events,) = re.findall(r'WebSocket\("([^"]+)"\)', shown)
        (line,) = re.findall(r'src="https://radio.example(/\S+)"', blocks("html")[0])  # of README.md
        assert (await public.ask(line, "HEAD")).status == 200
        async with aiohttp.ClientSession() as session, session.get(audio) as stream, session.ws_connect(events) as told:
            assert (stream.status, stream.headers["icy-name"]) == (200, "Attic Radio")
            first = await told.receive_json()
            assert first["title"] in {"one", "two", "news", "jingle"}
            assert await paste(CONTROL) == [204, 201, 201]
            async with watching(public, "radio") as window:
                await window.state(title="news", state="playing")
        assert await paste(REFUSED) == [405]
    again = started_public(tmp_path, CONFIG.replace("port = 2335", "port = 0"))  # the next morning
    async with again as public, watching(public, "radio") as window:
        await window.state(state="playing")

"""Pages in Chromium that come from a server of their own: those in examples/, and one that knows a node's password."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from aiohttp import web

from tests.listeners.test_public_page import OWNER, opened
from tests.support.audio_files import music, wav
from tests.support.browser import CHROMIUM
from tests.support.e2e_players import IMPATIENT
from tests.support.eventually import eventually
from tests.support.public_address import public_config, started_public
from tests.support.readme import REPOSITORY
from tests.support.running_node import running_node
from tests.support.serving import serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")


@asynccontextmanager
async def pages() -> AsyncIterator[str]:
    """The address of a server of the folder `examples`."""
    application = web.Application()
    application.router.add_static("/", REPOSITORY / "examples")
    async with serving(application) as port:
        yield f"http://127.0.0.1:{port}"


async def test_a_button_plays_its_sound_over_the_music(tmp_path: Path) -> None:
    (tmp_path / "bell.wav").write_bytes(wav(music(20.0)))
    async with pages() as here:
        config = f'{IMPATIENT}[server]\nallowed_origins = ["{here}"]\n'
        async with running_node(tmp_path, config) as node:
            url = f"{here}/soundboard.html?player=board&node={quote(node.url)}"
            async with opened(url, tmp_path / "profile") as tab:
                await eventually(lambda: tab.value("document.getElementById('music')?.src"), "the player is made")
                await tab.value("document.querySelector('#add input').value = 'bell.wav'")
                await tab.value("document.querySelector('#add').requestSubmit()")
                await tab.value("document.querySelector('#board button').click()")

                async def sounds() -> bool:
                    answer = await node.request("GET", "/v0/players/board/overlays")
                    return answer.status == 200 and [one["uri"] for one in answer.json()] == ["bell.wav"]

                await eventually(sounds, "the overlay sounds")
                await tab.value("music.play(), true")
                await eventually(lambda: tab.value("music.currentTime > 0.5"), "the player is heard")
                await tab.value("document.querySelector('#add input').value = 'ftp://x'")
                await tab.value("document.querySelector('#add').requestSubmit()")
                await tab.value("[...document.querySelectorAll('#board button')].at(-1).click()")
                shown = "document.getElementById('told').textContent"
                await eventually(lambda: tab.value(f"{shown}.length > 0"), "the node's own words")
                assert json.loads(await tab.value("localStorage.sounds")) == ["bell.wav", "ftp://x"]


async def test_the_radio_shows_what_plays(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.wav").write_bytes(wav(music(30.0)))
    async with pages() as here, started_public(tmp_path, public_config()) as public:
        body = {"id": "radio", "uri": "one.wav"}
        assert (await public.node.request("POST", "/v0/players", body, headers=OWNER)).status == 201
        url = f"{here}/radio.html?player=radio&at=http://127.0.0.1:{public.port}"
        async with opened(url, tmp_path / "profile") as tab:
            title = "document.getElementById('title').textContent"
            await eventually(lambda: tab.value(f"{title} === 'one'"), "the title")
            await tab.value("document.getElementById('radio').play()")
            await eventually(lambda: tab.value("document.getElementById('radio').currentTime > 0.5"), "it sounds")
            body = {"uri": "two.wav"}
            assert (await public.node.request("PUT", "/v0/players/radio/track", body, headers=OWNER)).status == 201
            await eventually(lambda: tab.value(f"{title} === 'two'"), "the next title")

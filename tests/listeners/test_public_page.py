"""The page of the public address in Chromium: its policy lets all of it work, and what it shows changes by itself."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.audio_files import music, wav
from tests.support.browser import CHROMIUM, running_chromium
from tests.support.eventually import eventually
from tests.support.pictures import flac_with, png
from tests.support.public_address import public_config, started_public

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")

OWNER = (("Authorization", "sesame"),)
SHOWN = "document.querySelector('article').innerText + ' picture ' + document.querySelector('img').naturalWidth"


class Tab:
    """A page in Chromium, asked through its DevTools. `complaints` are what it says of what was refused."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.complaints: list[str] = []

    async def call(self, method: str, **parameters: object) -> Any:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            answer = await self._socket.receive_json()
            if answer.get("id") == self._number:
                return answer["result"]
            if answer["method"] in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.complaints.append(str(answer["params"]))

    async def value(self, expression: str) -> Any:
        answer = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True)
        return answer["result"].get("value")


@asynccontextmanager
async def opened(url: str, folder: Path) -> AsyncIterator[Tab]:
    told = folder / "DevToolsActivePort"  # where Chromium writes its port
    async with running_chromium("about:blank", folder, "--remote-debugging-port=0"):
        await eventually(lambda: told.exists() and "\n" in told.read_text(), "Chromium listens")
        tools = f"http://127.0.0.1:{told.read_text().split()[0]}/json"
        async with aiohttp.ClientSession() as session:
            async with session.get(tools) as answer:
                (page,) = (target for target in await answer.json() if target["type"] == "page")
            async with session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                for domain in ("Log", "Runtime", "Page"):
                    await tab.call(f"{domain}.enable")
                await tab.call("Page.navigate", url=url)
                yield tab


async def test_the_page_plays_and_shows_what_changes(tmp_path: Path) -> None:
    (tmp_path / "one.flac").write_bytes(flac_with(music(60.0), png()))
    (tmp_path / "two.wav").write_bytes(wav(music(60.0)))
    async with started_public(tmp_path, public_config()) as public:
        new = {"id": "radio", "uri": "one.flac", "metadata": {"station": {"name": "Attic"}}}
        assert (await public.node.request("POST", "/v0/players", new, headers=OWNER)).status == 201
        async with opened(f"http://127.0.0.1:{public.port}/", tmp_path / "profile") as tab:

            async def shows(*words: str) -> None:
                async def is_shown() -> bool:
                    text = str(await tab.value(SHOWN))
                    return all(word in text for word in words)

                await eventually(is_shown, f"the page shows {words}")

            await shows("Attic", "one", "picture 8")
            assert await tab.value("document.querySelector('audio').play().then(() => 'plays', String)") == "plays"
            await shows("playing 0:01")
            change = await public.node.request("PUT", "/v0/players/radio/track", {"uri": "two.wav"}, headers=OWNER)
            assert change.status == 201
            await shows("two", "playing 0:")
            assert await tab.value("document.querySelector('img').hidden") is True
            assert not [told for told in tab.complaints if "favicon.ico" not in told]
            assert (await public.node.request("DELETE", "/v0/players/radio", headers=OWNER)).status == 204
            await shows("not on air")

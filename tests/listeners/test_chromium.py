"""A page in Chromium plays the streams of a running node with an <audio> element, and hears the right sound."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support.audio_files import tone, wav
from tests.support.browser import CHROMIUM, running_chromium
from tests.support.e2e_players import PATIENT, create, enqueue, order, patch, until_state
from tests.support.eventually import eventually
from tests.support.running_node import running_node
from tests.support.serving import serving

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: apt-get install chromium")

ONE_HZ, OTHER_HZ = 1000, 400
PAGE = """
<!DOCTYPE html><script>
const tell = (kind, more) => fetch("/told", {method: "POST", body: JSON.stringify({kind, ...more})});
const audio = new Audio();
audio.crossOrigin = "anonymous";
for (const kind of ["playing", "waiting", "error", "ended"])
    audio.addEventListener(kind, () => tell(kind, {message: audio.error?.message}));
const context = new AudioContext(), analyser = context.createAnalyser();
analyser.fftSize = 8192;
analyser.smoothingTimeConstant = 0;
context.createMediaElementSource(audio).connect(analyser).connect(context.destination);
const spectrum = new Float32Array(analyser.frequencyBinCount);
setInterval(() => {
    analyser.getFloatFrequencyData(spectrum);
    const loudest = spectrum.indexOf(Math.max(...spectrum));
    tell("heard", {hertz: loudest * context.sampleRate / analyser.fftSize, level_db: Math.max(spectrum[loudest], -200),
                   at_s: audio.currentTime, clock_s: performance.now() / 1000});
}, 200);
audio.src = new URLSearchParams(location.search).get("stream");
audio.play().catch((error) => tell("error", {message: String(error)}));
</script>
"""


class Page:
    """What the page told."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.origin = ""

    def kinds(self) -> set[str]:
        return {entry["kind"] for entry in self.told}

    async def hears(self, hertz: float) -> list[dict[str, Any]]:
        """Waits until this tone was the loudest ten times from now on; returns what was told of it."""
        begin = len(self.told)

        def heard() -> list[dict[str, Any]]:
            entries = [entry for entry in self.told[begin:] if entry["kind"] == "heard"]
            return [entry for entry in entries if abs(entry["hertz"] - hertz) < 20 and entry["level_db"] > -40]

        await eventually(lambda: len(heard()) >= 10, lambda: f"{hertz} Hz in the page; it told {self.told[-5:]}")
        return heard()


@asynccontextmanager
async def served_page() -> AsyncIterator[Page]:
    page = Page()

    async def show(_: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    async def take(request: web.Request) -> web.Response:
        page.told.append(json.loads(await request.text()))
        return web.Response()

    app = web.Application()
    app.router.add_get("/", show)
    app.router.add_post("/told", take)
    async with serving(app) as port:
        page.origin = f"http://127.0.0.1:{port}"
        yield page


@pytest.mark.parametrize("kind", ["ogg", "mp3", "wav"])
async def test_a_page_hears_a_stream_its_filters_and_a_skip(kind: str, tmp_path: Path) -> None:
    (tmp_path / "one.wav").write_bytes(wav(tone(ONE_HZ, 120.0)))
    (tmp_path / "other.wav").write_bytes(wav(tone(OTHER_HZ, 120.0)))
    async with served_page() as page:
        config = PATIENT + f'[server]\nallowed_origins = ["{page.origin}"]\n'
        async with running_node(tmp_path, config) as node:
            await create(node, "p", "one.wav")
            await enqueue(node, "p", "other.wav")
            stream = f"{node.url}/v0/players/p/stream.{kind}"
            async with running_chromium(f"{page.origin}/?stream={stream}", tmp_path / "profile"):
                heard = await page.hears(ONE_HZ)
                await until_state(node, "p", lambda state: state["listeners"] == 1)
                # It goes on as fast as time does, without a pause.
                passed_s = heard[-1]["clock_s"] - heard[0]["clock_s"]
                assert heard[-1]["at_s"] - heard[0]["at_s"] == pytest.approx(passed_s, rel=0.2)
                await patch(node, "p", "filters", {"volume": 0.1})
                loud_db = heard[-1]["level_db"]

                def is_quiet() -> bool:
                    now = [entry for entry in page.told if entry["kind"] == "heard"][-1]
                    return bool(abs(now["level_db"] - (loud_db - 20)) < 2)

                await eventually(is_quiet, "the page hears the volume")
                await patch(node, "p", "filters", {"volume": 1.0})
                await order(node, "p", "skip")
                await page.hears(OTHER_HZ)
                assert "playing" in page.kinds()
                assert not page.kinds() & {"error", "ended"}, page.told

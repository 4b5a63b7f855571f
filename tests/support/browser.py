"""A page in Chromium, driven by playwright: what it did wrong is told at the end, and what it plays can be heard."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module, resources
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.eventually import eventually
from tests.support.missing_programs import skip_for_want_of

CHROMIUM: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# Analysers beside all that goes to the loudspeakers; and what kept the page from answering for long.
_LISTENING: Final = """
const connect = AudioNode.prototype.connect;
globalThis.heard = [];
AudioNode.prototype.connect = function (to, ...more) {
  if (to instanceof AudioDestinationNode || to instanceof MediaStreamAudioDestinationNode) {
    const analyser = new AnalyserNode(this.context, {fftSize: 8192, smoothingTimeConstant: 0});
    connect.call(this, analyser);
    heard.push(analyser);
  }
  return connect.call(this, to, ...more);
};
globalThis.loudest = () => {
  const analyser = heard.at(-1);
  if (!analyser) return {hertz: 0, db: -200};
  const values = new Float32Array(analyser.frequencyBinCount);
  analyser.getFloatFrequencyData(values);
  const bin = values.indexOf(Math.max(...values));
  return {hertz: bin * analyser.context.sampleRate / analyser.fftSize, db: Math.max(-200, values[bin])};
};
// The loudest sample of the last 5 ms.
globalThis.level = () => {
  const values = new Float32Array(8192); // the oldest first
  heard.at(-1).getFloatTimeDomainData(values);
  return Math.max(...values.subarray(-256).map(Math.abs));
};
globalThis.longTasks = [];
new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((one) => one.duration)))
  .observe({type: "longtask", buffered: true});
"""


class Browser:
    """`page` is playwright's; `complaints` are errors in the page, and addresses elsewhere that it asked for."""

    def __init__(self, page: Any, origin: str) -> None:
        self.page = page
        self.complaints: list[str] = []
        own = (origin, origin.replace("http", "ws", 1))
        page.on("pageerror", lambda error: self.complaints.append(f"error in the page: {error}"))
        page.on("console", lambda message: self._note(message))
        page.on("request", lambda asked: self._check(asked.url, own))

    def _check(self, url: str, own: tuple[str, str]) -> None:
        if not url.startswith(own):
            self.complaints.append(f"asked for {url}")

    def _note(self, message: Any) -> None:
        """What a policy refused, or a script complained of. That a node refuses or is gone is none."""
        expected = ("Failed to load resource", "WebSocket connection to")
        if message.type in ("error", "warning") and not message.text.startswith(expected):
            self.complaints.append(message.text)

    def button(self, name: str) -> Any:
        """One of the page, not of the bar at its bottom."""
        return self.page.get_by_role("button", name=name, exact=True).and_(self.page.locator(":not(.bottom *)"))

    @property
    def bar(self) -> Any:
        return self.page.get_by_role("region", name="Player bar")

    async def tab(self, name: str) -> None:
        await self.page.get_by_role("tab", name=name, exact=True).click()

    def field(self, name: str) -> Any:
        return self.page.get_by_role("textbox", name=name, exact=True)

    def slider(self, name: str) -> Any:
        return self.page.get_by_role("slider", name=name, exact=True)

    async def shows(self, text: str) -> None:
        """Waits until a text is there that holds this one."""
        await self.page.get_by_text(text).first.wait_for()

    async def until(self, expression: str) -> None:
        """Waits until an expression of JavaScript holds. The page's policy keeps playwright's own waiting out."""

        async def holds() -> bool:
            return bool(await self.page.evaluate(expression))

        await eventually(holds, f"in the page: {expression}")

    async def slide(self, name: str, value: float) -> None:
        await self.slider(name).fill(str(value))

    async def hears(self, hertz: float) -> None:
        """Waits until this tone is the loudest in what the page plays."""
        last: Any = None

        async def is_heard() -> bool:
            nonlocal last
            last = await self.page.evaluate("loudest()")
            return bool(abs(last["hertz"] - hertz) < 20 and last["db"] > -50)

        await eventually(is_heard, lambda: f"{hertz} Hz in the page, which plays {last}")

    async def hears_nothing(self) -> None:
        async def is_silent() -> bool:
            return bool(await self.page.evaluate("level()") < 1e-4)

        await eventually(is_silent, "silence in the page")

    async def violations(self) -> list[str]:
        """What axe finds in the page as it is now."""
        script = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        await self.page.evaluate(script)
        found = await self.page.evaluate("axe.run()")
        return [
            f"{rule['id']}: {node['html'][:200]} ({node['failureSummary']})"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]


@asynccontextmanager
async def running_chromium(url: str, folder: Path, *arguments: str) -> AsyncIterator[None]:
    """Without playwright: a page whose browser keeps what it has in `folder`."""
    assert CHROMIUM is not None
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--autoplay-policy=no-user-gesture-required", f"--user-data-dir={folder}", *arguments, url,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


@asynccontextmanager
async def browsing(url: str, **context: Any) -> AsyncIterator[Browser]:
    """A browser that has opened `url`. At the end its page must have complained of nothing.

    `context` is for playwright: `color_scheme`, `viewport`, and so on.
    """
    if CHROMIUM is None:
        skip_for_want_of("chromium")
    try:
        playwright = import_module("playwright.async_api")
    except ImportError:
        pytest.skip("playwright is not installed: pip install -r requirements/browser.txt")
    async with playwright.async_playwright() as driver:
        chromium = await driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--autoplay-policy=no-user-gesture-required"]
        )
        try:
            page = await (await chromium.new_context(**context)).new_page()
            await page.add_init_script(_LISTENING)
            browser = Browser(page, "/".join(url.split("/")[:3]))
            await page.goto(url)
            yield browser
            assert browser.complaints == [], browser.complaints
        finally:
            await chromium.close()

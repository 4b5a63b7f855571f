"""Makes the pictures of the dashboard in docs/pictures anew: both pages, light and dark, and a phone.

    python -m tools.dashboard_pictures

They show a real node with players whose music and covers are made here. Needs Chromium and requirements/browser.txt.
"""

import asyncio
import base64
import struct
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from tests.support.audio_files import Signal, music, opus
from tests.support.browser import Browser, browsing
from tests.support.e2e_players import create, done, enqueue, patch
from tests.support.pictures import picture_block
from tests.support.running_node import RunningNode, running_node

FOLDER: Final = Path(__file__).parents[1] / "docs" / "pictures"
DESKTOP: Final = {"viewport": {"width": 1280, "height": 960}}
PHONE: Final = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2}
SONGS: Final = ("Paper Lanterns", "Low Tide", "Second Floor", "Copper Wire", "Night Bus", "Slow Orbit")
PLAYERS: Final = ("attic", "cellar", "kitchen", "lobby", "porch", "studio", "workshop")
MOST_MUSIC_S: Final = 200.0
SETTLED_S: Final = 12.0  # until plots and meters have something to show


def cover(seed: int, side: int = 256) -> bytes:
    """A PNG of some soft rings in two colours."""
    chance = np.random.default_rng(seed)
    first, second = chance.integers(30, 230, (2, 3))
    y, x = np.mgrid[0:side, 0:side] / side
    centre = chance.uniform(0.2, 0.8, 2)
    rings = 0.5 + 0.5 * np.sin(18 * np.hypot(x - centre[0], y - centre[1]) + 3 * x)
    pixels = (rings[..., None] * first + (1 - rings[..., None]) * second).astype(np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def sound(seconds: float) -> Signal:
    """Something with a beat, and with more in the lows than in the heights, as music has it."""
    chance = np.random.default_rng(7)
    time = np.arange(round(seconds * 48_000)) / 48_000
    noise = np.fft.rfft(chance.standard_normal(48_000))
    pink = np.fft.irfft(noise / np.sqrt(np.arange(1, len(noise) + 1)), 48_000)
    beat = np.exp(-8 * (time % 0.5)) * np.resize(pink / np.abs(pink).max(), len(time))
    bass = np.sin(2 * np.pi * 55 * time) * np.exp(-3 * (time % 1.0))
    return music(seconds, level=0.25) + (0.3 * beat + 0.25 * bass)[:, None]


def make_music(folder: Path) -> None:
    whole = sound(MOST_MUSIC_S)
    for number, title in enumerate(SONGS):
        picture = base64.b64encode(picture_block(cover(number))).decode()
        tags = {"title": title, "artist": "The Attic Band", "METADATA_BLOCK_PICTURE": picture}
        shorter = whole[: round(48_000 * (MOST_MUSIC_S - 17 * number))]
        (folder / f"{title}.opus").write_bytes(opus(shorter, tags=tags))


async def make_players(node: RunningNode) -> None:
    for number, player in enumerate(PLAYERS):
        await create(node, player, f"{SONGS[number % len(SONGS)]}.opus", loop="queue")
        for later in range(1, 5):
            await enqueue(node, player, f"{SONGS[(number + later) % len(SONGS)]}.opus")
        await done(node, "PATCH", f"/v0/players/{player}/position", {"position": 20_000 + 9_000 * number})
    await done(node, "POST", "/v0/players/porch/pause")
    await create(node, "balcony", "Unfinished.opus")
    eq = [
        {"band": band, "gain_db": gain} for band, gain in enumerate((4, 5, 4, 2, 0, -1, -2, -2, -1, 0, 1, 2, 3, 3, 2))
    ]
    await patch(node, "lobby", "filters", {"volume": 0.8, "eq": eq, "compressor": {"thresholdDb": -24, "ratio": 3}})
    await patch(node, "lobby", "metadata", {"value": {"channel": "lobby", "by": "ada"}})


async def kept(browser: Browser, name: str) -> None:
    await asyncio.sleep(SETTLED_S)
    data = await browser.page.screenshot()
    (FOLDER / f"{name}.png").write_bytes(data)
    print(f"docs/pictures/{name}.png: {len(data) // 1024} KiB")


async def player_pictures(node: RunningNode, name: str, **context: Any) -> None:
    async with browsing(f"{node.url}/dashboard/#/0/lobby", **context) as browser:
        await browser.button("Listen here").click()
        await kept(browser, name)


async def node_pictures(node: RunningNode, name: str, **context: Any) -> None:
    async with browsing(f"{node.url}/dashboard/#/0", **context) as browser:
        await kept(browser, name)


async def main(arguments: Sequence[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        make_music(Path(folder))
        async with running_node(Path(folder)) as node:
            await make_players(node)
            for scheme in ("light", "dark"):
                await node_pictures(node, f"node-{scheme}", color_scheme=scheme, **DESKTOP)
                await player_pictures(node, f"player-{scheme}", color_scheme=scheme, **DESKTOP)
            await player_pictures(node, "player-phone", color_scheme="dark", **PHONE)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))

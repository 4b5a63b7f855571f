"""The page of the public address: the listed players, each with a play button, its title and its picture.

The page works without scripts; its own script changes the titles as tracks change.
"""

import asyncio
import html
import time
from collections.abc import Callable
from functools import partial
from importlib import resources
from typing import Final

from aiohttp import web

from tonearm.core.player_status import PlayerStatus
from tonearm.node.node import Node
from tonearm.server.routing import Call, Handler
from tonearm.server.station import own_name

MAX_SHOWN: Final = 200
_MADE_AGAIN_AFTER_S: Final = 1.0  # however often the page is requested
_PLAYERS_A_SLICE: Final = 250  # are checked, or
_SHOWN_A_SLICE: Final = 50  # are shown, before the event loop goes on

_SCRIPT: Final = "listen.js"
_STYLE: Final = "listen.css"
_TYPES: Final = {_SCRIPT: "text/javascript", _STYLE: "text/css"}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class PublicPage:
    """`is_listed` says whether the player with an id is shown; `name` is the page's title."""

    def __init__(self, node: Node, is_listed: Callable[[str], bool], name: str) -> None:
        self._node = node
        self._is_listed = is_listed
        self._name = name or "Radio"
        self._files = {name: (resources.files("tonearm.server") / name).read_bytes() for name in _TYPES}
        self._making = asyncio.Lock()
        self._made_s = 0.0
        self._page = ""

    def handlers(self) -> dict[str, Handler]:
        """The handlers by path, without its slash."""
        return {"": self._show, **{name: partial(self._show_file, name=name) for name in self._files}}

    async def _show(self, call: Call) -> web.Response:
        async with self._making:
            if not self._page or time.monotonic() - self._made_s > _MADE_AGAIN_AFTER_S:
                self._page = await self._made()
                self._made_s = time.monotonic()
        return web.Response(
            text=self._page, content_type="text/html", headers={**_HEADERS, "Cache-Control": "no-cache"}
        )

    async def _show_file(self, call: Call, name: str) -> web.Response:
        return web.Response(
            body=self._files[name],
            content_type=_TYPES[name],
            charset="utf-8",
            headers={**_HEADERS, "Cache-Control": "max-age=300"},
        )

    async def _made(self) -> str:
        """The present page, made in slices."""
        shown: list[str] = []
        for number, player in enumerate(self._node.players(), start=1):
            if self._is_listed(player.player_id):
                shown.append(_player(player.status()))
                if len(shown) == MAX_SHOWN:
                    break
                if len(shown) % _SHOWN_A_SLICE == 0:
                    await asyncio.sleep(0)
            if number % _PLAYERS_A_SLICE == 0:
                await asyncio.sleep(0)
        return _page(self._name, shown)


def _page(name: str, players: list[str]) -> str:
    title = html.escape(name)
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<link rel="stylesheet" href="{_STYLE}">
<script src="{_SCRIPT}" defer></script>
<h1>{title}</h1>
<main>
{"".join(players) or "<p>Nothing is on air.</p>"}
</main>
"""


def _player(status: PlayerStatus) -> str:
    """A player's part of the page. An id needs no escapes in HTML and in a path; after `./` a colon in it is no
    scheme."""
    player_id, info = status.player_id, status.track.info
    name = html.escape(own_name(status.metadata) or player_id)
    title = html.escape(" - ".join(filter(None, (info.author, info.title))))
    has_picture = status.track.is_known and info.has_picture
    picture = f'src="./{player_id}/artwork"' if has_picture else "hidden"
    links = " ".join(f'<a href="./{player_id}.{kind}">{kind}</a>' for kind in ("mp3", "ogg", "wav"))
    state = "paused" if status.paused else status.state.value
    return f"""<article data-player="{player_id}">
<img alt="" loading="lazy" {picture}>
<h2>{name}</h2>
<p class="title">{title}</p>
<p class="state">{state}</p>
<audio controls preload="none" src="./{player_id}.mp3"></audio>
<p class="links">{links}</p>
</article>
"""

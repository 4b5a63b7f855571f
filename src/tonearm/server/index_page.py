"""`GET /`: what this node is, and all its paths, as a page for people and as JSON for programs."""

import html
from collections.abc import Iterable, Sequence
from typing import Final

from aiohttp import web

from tonearm.server.replies import json_reply
from tonearm.server.routing import Call, Route
from tonearm.version import VERSION

# They are in the repository that the node was made of, and on the site that `make docs` makes.
DOCUMENTS: Final = (
    "README.md",
    "docs/tour.md",
    "docs/interface.md",
    "docs/configuration.md",
    "docs/dashboard.md",
    "docs/proxies.md",
    "docs/security.md",
)

_FIRST_STEPS: Final = """curl -d '{"id": "tour", "uri": "https://radio.example/live.mp3"}' NODE/v0/players
mpv NODE/v0/players/tour/stream.mp3
curl NODE/v0/players"""


def index_route(routes: Iterable[Route]) -> Route:
    """The route of `/`, which names `routes`."""
    paths = sorted({(route.path, route.method) for route in routes})

    async def index(call: Call) -> web.Response:
        if "text/html" in ",".join(call.request.headers.getall("Accept", [])).lower():
            return web.Response(
                text=_page(call.request.headers.get("Host", ""), paths),
                content_type="text/html",
                headers={"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff"},
            )
        return json_reply(
            {
                "version": VERSION,
                "documents": list(DOCUMENTS),
                "paths": [f"{method} {path}" for path, method in paths],
            }
        )

    return Route("GET", "/", index)


def _page(host: str, paths: Sequence[tuple[str, str]]) -> str:
    rows = "\n".join(f"<tr><td>{method}<td><code>{html.escape(path)}</code>" for path, method in paths)
    steps = html.escape(_FIRST_STEPS.replace("NODE", f"http://{host}"))
    documents = ", ".join(f"<code>{document}</code>" for document in DOCUMENTS)
    has_dashboard = any(path == "/dashboard" for path, _ in paths)
    dashboard = '<p>See and steer it: <a href="/dashboard">/dashboard</a>.' if has_dashboard else ""
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>tonearm {VERSION}</title>
<h1>tonearm {VERSION}</h1>
{dashboard}
<p>This is an audio node: programs create players here, and listen to them. To try it:
<pre>{steps}</pre>
<p>What each path takes and answers: <a href="/docs">/docs</a>, and the documents in its repository: {documents}.
<table>
{rows}
</table>
"""

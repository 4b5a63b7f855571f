"""`/dashboard` of a node: for its own machine, and for nobody else."""

import json

from tests.support.edge import StillNode, running_edge
from tests.support.http_client import request
from tonearm.server.app import EdgeSettings


async def test_a_node_without_password_on_loopback_serves_the_page(node: StillNode) -> None:
    async with running_edge(node, EdgeSettings(clip_uri="/clip.opus")) as port:
        entry = await request(port, "GET", "/dashboard")
        assert (entry.status, entry.header("Location")) == (308, "/dashboard/")
        page = await request(port, "GET", "/dashboard/")
        assert page.status == 200
        assert page.header("Content-Type") == "text/html; charset=utf-8"
        assert "default-src 'self'" in (page.header("Content-Security-Policy") or "")
        script = await request(port, "GET", "/dashboard/vendor/uplot.js")
        assert script.header("Content-Type") == "text/javascript; charset=utf-8"
        nodes = json.loads((await request(port, "GET", "/dashboard/nodes.json")).body)
        assert nodes["nodes"][0]["clip"] == "/clip.opus"


async def test_the_page_of_the_node_leads_there(node: StillNode, port: int) -> None:
    accept = (("Accept", "text/html"),)
    link = b'href="/dashboard"'
    assert link in (await request(port, "GET", "/", headers=accept)).body
    async with running_edge(node, EdgeSettings(password="sesame")) as other:
        assert link not in (await request(other, "GET", "/", headers=(*accept, ("Authorization", "sesame")))).body


async def test_what_a_browser_has_is_not_sent_again(port: int) -> None:
    etag = (await request(port, "GET", "/dashboard/app.js")).header("ETag")
    assert etag is not None
    again = await request(port, "GET", "/dashboard/app.js", headers=(("If-None-Match", etag),))
    assert (again.status, again.body) == (304, b"")


async def test_only_its_own_files_are_there_and_for_nobody_through_a_proxy(port: int) -> None:
    for path in ("nothing.js", "..%2fpage_files.py", "vendor/../app.js"):
        assert (await request(port, "GET", f"/dashboard/{path}")).status == 404
    for path in ("", "/", "/app.js"):
        for header in (("X-Forwarded-For", "198.51.100.7"), ("Via", "1.1 proxy")):
            assert (await request(port, "GET", f"/dashboard{path}", headers=(header,))).status == 404

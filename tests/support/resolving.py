"""A resolver that knows the site `fake` of `tests/support/fake_sites.py`: pages /fake/WHAT of servers on 127.0.0.1."""

import json
from typing import Any

from tests.support.media_server import Answer, media
from tests.support.resolver_forks import FAKE_SITES, load, start_quickly
from tests.support.sandboxing import SANDBOX
from tonearm.sources.resolver.pages import ResolverSettings


def fake_sites(**settings: Any) -> ResolverSettings:
    load()  # so that it holds no descriptor that would seem to be a node's
    return real_sites(**{"sites": ("fake",), "command": FAKE_SITES, "timeout_s": 30.0, "sandbox": SANDBOX, **settings})


def real_sites(**settings: Any) -> ResolverSettings:
    return ResolverSettings(start_process=start_quickly, **settings)


def html(head: str, body: str = "") -> Answer:
    page = f"<!DOCTYPE html><html><head>{head}</head><body>{body}</body></html>"
    return media(page.encode(), content_type="text/html; charset=utf-8", ranges=False)


def told(url: str, **more: Any) -> Answer:
    """What `/fake/told` of the same server is to find, at `/api/told`."""
    info = {"id": "1", "title": "A title", "url": url, "ext": "mp3", "vcodec": "none", "acodec": "mp3", **more}
    return media(json.dumps(info).encode(), content_type="application/json", ranges=False)

"""The dashboard's files, which a node or `tonearm dashboard` serves.

They are plain modules and styles without a build step. They fetch from addresses relative to themselves, so they work
below any path.
"""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final, NamedTuple

from tonearm.core.metadata import JsonObject
from tonearm.protocol.filters import EffectFields
from tonearm.protocol.wire_model import json_text

INDEX: Final = "index.html"
_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".css": "text/css; charset=utf-8",
        ".svg": "image/svg+xml",
        ".json": "application/json",
    }
)
_IMPORT_MAP: Final = re.compile(rb'<script type="importmap">(.*?)</script>', re.DOTALL)
_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
)


class PageFile(NamedTuple):
    """A file of the page; `etag` changes with `body`."""

    body: bytes
    content_type: str
    etag: str

    def headers(self) -> dict[str, str]:
        policy = {"Content-Security-Policy": _policy()}
        return {**_HEADERS, **policy, "Content-Type": self.content_type, "ETag": self.etag}


@dataclass(frozen=True, slots=True)
class ShownNode:
    """A node that the page shows. `path` leads to it from the page's folder. `clip_uri` is a clip that it can play,
    `stream_path` the path of its streams for other programs than the browser; both may be empty. `has_login`: the
    browser has logged in to it, and can log out. `in_cluster`: it is one of many."""

    name: str
    path: str
    clip_uri: str = ""
    stream_path: str = ""
    has_login: bool = False
    in_cluster: bool = False


def page_files(nodes: Sequence[ShownNode]) -> Mapping[str, PageFile]:
    """All files by their path below the page's folder: those of the package, `nodes.json` with `nodes`, and
    `effects.json` with the effects and their ranges."""
    found = {path: _file(path, file.read_bytes()) for path, file in _walk(_folder())}
    shown: JsonObject = {
        "nodes": [
            {
                "name": node.name,
                "path": node.path,
                "clip": node.clip_uri,
                "streams": node.stream_path,
                "login": node.has_login,
                "cluster": node.in_cluster,
            }
            for node in nodes
        ]
    }
    return {
        **found,
        "nodes.json": _file("nodes.json", json_text(shown)),
        "effects.json": _effects(),
    }


@cache
def _policy() -> str:
    """The Content-Security-Policy: the page fetches nothing from other hosts, and no other page may frame it. Its only
    inline script is the import map, which is allowed by its hash."""
    found = _IMPORT_MAP.search((_folder() / INDEX).read_bytes())
    assert found is not None
    digest = b64encode(hashlib.sha256(found[1]).digest()).decode()
    return (
        f"default-src 'self'; script-src 'self' 'sha256-{digest}'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )


@cache
def _effects() -> PageFile:
    """The content of `effects.json`, made once for all servers of the page."""
    return _file("effects.json", json_text(EffectFields.model_json_schema()))


def _folder() -> Traversable:
    return resources.files("tonearm.dashboard") / "page"


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif any(entry.name.endswith(ending) for ending in _TYPES):
            yield prefix + entry.name, entry


def _file(path: str, body: bytes) -> PageFile:
    ending = path[path.rindex(".") :]
    return PageFile(body, _TYPES[ending], f'"{hashlib.sha256(body).hexdigest()[:32]}"')

"""Answers with a JSON body, and answers with none."""

import asyncio
import json
from collections.abc import Iterable
from http import HTTPStatus
from itertools import islice
from typing import Final

from aiohttp import web

from tonearm.core.json_value import JsonObject

# Making and encoding one player's state takes about 25 µs, so a slice holds the event loop for about 2.5 ms.
_SLICE_ITEMS: Final = 100


def json_reply(value: JsonObject, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return _reply(encode_json(value), status)


async def json_list_reply(items: Iterable[JsonObject]) -> web.Response:
    """An array, made and encoded in slices: a list of thousands must not hold up the audio clock."""
    parts: list[bytes] = []
    remaining = iter(items)
    while some := list(islice(remaining, _SLICE_ITEMS)):
        if parts:
            await asyncio.sleep(0)
        parts.append(b",".join(map(encode_json, some)))
    return encoded_list_reply(parts)


def encoded_reply(item: bytes) -> web.Response:
    """What `encode_json` made already."""
    return _reply(item, HTTPStatus.OK)


def encoded_list_reply(items: Iterable[bytes]) -> web.Response:
    """An array of what `encode_json` made already."""
    return _reply(b"[" + b",".join(items) + b"]", HTTPStatus.OK)


def no_content() -> web.Response:
    return web.Response(status=HTTPStatus.NO_CONTENT)


def encode_json(value: JsonObject) -> bytes:
    # "replace": a lone surrogate that came in with a path or a tag must not turn an answer into a failure.
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def _reply(body: bytes, status: HTTPStatus) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")

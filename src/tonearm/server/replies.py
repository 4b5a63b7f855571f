"""Answers: with a JSON body, with a long list made in slices, with none; and the choice between JSON and plain text."""

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Final

from aiohttp import web

from tonearm.core.json_value import JsonObject

# Rendering and encoding one player's state takes about 25 µs, so a slice holds the event loop for about 2.5 ms.
_SLICE_ITEMS: Final = 100

# What json.dumps would make anew for each call.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


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
    """A body that `encode_json` has made."""
    return _reply(item, HTTPStatus.OK)


def encoded_list_reply(items: Iterable[bytes]) -> web.Response:
    """An array of items that `encode_json` has made."""
    return _reply(b"[" + b",".join(items) + b"]", HTTPStatus.OK)


def no_content() -> web.Response:
    return web.Response(status=HTTPStatus.NO_CONTENT)


def encode_json(value: JsonObject) -> bytes:
    # "replace": a lone surrogate that came in with a path or a tag must not turn an answer into a failure.
    return _ENCODER.encode(value).encode("utf-8", "replace")


def _reply(body: bytes, status: HTTPStatus) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")


_WEIGHT: Final = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def prefers_json(accept_headers: Sequence[str]) -> bool:
    """True when `application/json` is weighed above both `text/plain` and `*/*`.

    Weights are those of RFC 9110, section 12.5.1: `q` from 0 to 1, 1 when it is left out, and the more exact range
    counts for a type. A type that is not mentioned weighs nothing; a range that cannot be read is passed over.
    """
    weights = _weights(accept_headers)
    json_weight = weights.get("application/json", weights.get("application/*", 0.0))
    text_weight = weights.get("text/plain", weights.get("text/*", 0.0))
    return json_weight > text_weight and json_weight > weights.get("*/*", 0.0)


def _weights(accept_headers: Sequence[str]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for entry in ",".join(accept_headers).split(","):
        media_range, *parameters = (part.strip().lower() for part in entry.split(";"))
        weight_text = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        if _WEIGHT.fullmatch(weight_text):
            weights[media_range] = max(weights.get(media_range, 0.0), float(weight_text))
    return weights

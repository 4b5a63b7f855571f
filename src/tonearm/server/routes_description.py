"""What the node says of its own interface: for programs (OpenAPI, AsyncAPI) and for people."""

import asyncio
from collections.abc import Sequence

from aiohttp import web

from tonearm.core.errors import RequestError
from tonearm.core.json_value import JsonObject
from tonearm.description.asyncapi import asyncapi_document
from tonearm.description.openapi import openapi_document
from tonearm.description.page import CONTENT_SECURITY_POLICY, docs_page
from tonearm.server.replies import json_reply
from tonearm.server.routing import Call, Route
from tonearm.version import VERSION


class DescriptionRoutes:
    """Both documents are made when the first of them is asked for, in a thread: that takes a tenth of a second."""

    def __init__(self) -> None:
        self._making: asyncio.Future[tuple[JsonObject, JsonObject]] | None = None

    def routes(self) -> Sequence[Route]:
        return (
            Route("GET", "/openapi.json", self._openapi),
            Route("GET", "/asyncapi.json", self._asyncapi),
            Route("GET", "/docs", self._docs),
        )

    async def _openapi(self, call: Call) -> web.Response:
        return json_reply((await self._documents())[0])

    async def _asyncapi(self, call: Call) -> web.Response:
        return json_reply((await self._documents())[1])

    async def _docs(self, call: Call) -> web.Response:
        page = await asyncio.to_thread(docs_page, *await self._documents())
        return web.Response(
            text=page,
            content_type="text/html",
            headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY, "X-Content-Type-Options": "nosniff"},
        )

    async def _documents(self) -> tuple[JsonObject, JsonObject]:
        if self._making is None:
            self._making = asyncio.ensure_future(asyncio.to_thread(_make))
        return await asyncio.shield(self._making)


def _make() -> tuple[JsonObject, JsonObject]:
    return openapi_document(VERSION, status_of_code()), asyncapi_document(VERSION)


def status_of_code() -> dict[str, int]:
    """With which status each error code is answered, when the node does not stop."""
    return {"internal": 500, **{error.code: error.status for error in RequestError.__subclasses__()}}

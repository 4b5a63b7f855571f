"""The endpoints of the library: its folders, its files and uploads."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web

from tonearm.description.node import LIST_FILES, SEND_FILE
from tonearm.node.node import Node
from tonearm.protocol.rendering import kept_file_out, library_entry_out, library_out
from tonearm.server.audio_settings import read_whole_number
from tonearm.server.bodies import body_parts
from tonearm.server.http_server import while_connected
from tonearm.server.replies import json_object_reply, json_reply
from tonearm.server.routing import Call, Route

MOST_ENTRIES: Final = 1000
DEFAULT_ENTRIES: Final = 200
_MAX_OFFSET: Final = 1_000_000


class FileRoutes:
    def __init__(self, node: Node) -> None:
        self._node = node

    def routes(self) -> Sequence[Route]:
        return (Route(LIST_FILES, self._list), Route(SEND_FILE, self._send))

    async def _list(self, call: Call) -> web.StreamResponse:
        target, by_proxy = call.target, call.came_through_proxy
        path, query = target.parameter("path") or "", target.parameter("query") or ""
        offset = read_whole_number(target, "offset", lowest=0, highest=_MAX_OFFSET) or 0
        limit = read_whole_number(target, "limit", lowest=1, highest=MOST_ENTRIES) or DEFAULT_ENTRIES
        wants_details = target.flag("details")
        files = self._node.files
        found = await files.listing(path, query, offset, limit, came_through_proxy=by_proxy)
        details = files.details(found.entries, came_through_proxy=by_proxy) if wants_details else None
        known = {} if details is None else await while_connected(call.request, details)
        entries = (library_entry_out(entry, known.get(entry)) for entry in found.entries)
        return await json_object_reply(call.request, library_out(found, files.takes_files), "entries", entries)

    async def _send(self, call: Call) -> web.Response:
        files, by_proxy = self._node.files, call.came_through_proxy
        name = files.name_for(call.target.required_parameter("name"), came_through_proxy=by_proxy)
        parts = body_parts(call.request, files.most_sent_bytes)
        call.request.let_body_take_time()
        kept = await files.keep(name, parts, call.request.content_length or 0, came_through_proxy=by_proxy)
        return json_reply(kept_file_out(kept.name, kept.uri, kept.size_bytes, kept.info), HTTPStatus.CREATED)

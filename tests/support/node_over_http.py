"""A real node in this process, asked over HTTP: for what can be configured only in here, such as a fake site."""

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

from tests.support.edge import running_edge
from tests.support.http_client import Answer, Headers, request
from tests.support.node_in_process import running_node
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings


class NodeOverHttp:
    def __init__(self, node: Node, port: int) -> None:
        self.node = node
        self.port = port

    async def get(self, path: str, **parameters: object) -> Answer:
        target = f"{path}?{urlencode(parameters)}" if parameters else path
        return await request(self.port, "GET", target)

    async def request(self, method: str, target: str, value: object = None, *, headers: Headers = ()) -> Answer:
        body = None if value is None else json.dumps(value).encode()
        return await request(self.port, method, target, headers=headers, body=body)


@contextlib.asynccontextmanager
async def node_over_http(settings: NodeSettings | None = None, **opening: Any) -> AsyncIterator[NodeOverHttp]:
    """`opening` are options of `fetching.opener`."""
    async with running_node(settings, **opening) as node, running_edge(node) as port:
        yield NodeOverHttp(node, port)

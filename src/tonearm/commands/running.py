"""What commands have in common: a node to speak to, an exit code for each way to fail, and how answers are shown."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tonearm import exit_codes
from tonearm.client import ConnectError, Node, TonearmError, Unauthorized


def run(url: str, password: str, work: Callable[[Node], Awaitable[int]]) -> int:
    """What `work` returns, or the exit code for what it raised, which is told on stderr."""

    async def reached() -> int:
        async with Node(url, password=password) as node:
            return await work(node)

    try:
        return asyncio.run(reached())
    except (ConnectError, Unauthorized) as error:
        complain(error.message)
        return exit_codes.UNREACHED
    except TonearmError as error:
        complain(error.message)
        return exit_codes.FAILED


def complain(sentence: str) -> None:
    click.echo(f"tonearm: {sentence}", err=True)


def as_plain(value: Any) -> Any:
    """What a model is in JSON, as the node has sent it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return [as_plain(one) for one in value] if isinstance(value, list) else value


def print_json(value: Any) -> None:
    """On one line, at once."""
    sys.stdout.write(json.dumps(as_plain(value), ensure_ascii=False) + "\n")
    sys.stdout.flush()


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """In colours only on a terminal."""
    table = Table(box=None, header_style="bold")
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)


def printable(text: str) -> str:
    """Text of strangers, with nothing in it that a terminal would obey."""
    return "".join(one if one.isprintable() else "�" for one in text)


def clock(ms: float) -> str:
    """Such as 3:05, or 1:00:00."""
    seconds = int(ms / 1000)
    minutes = f"{seconds // 60 % 60}:{seconds % 60:02}"
    return minutes if seconds < 3600 else f"{seconds // 3600}:{minutes.rjust(5, '0')}"


def seen_by_node(uri: str, node_url: str) -> str:
    """A file of this folder by its whole path: the node's folder is another one."""
    is_here = any(host in node_url for host in ("127.0.0.1", "localhost", "[::1]"))
    return str(Path(uri).resolve()) if is_here and "://" not in uri and Path(uri).exists() else uri

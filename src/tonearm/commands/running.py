"""What commands have in common: a node to speak to, an exit code for each way to fail, and how answers are shown."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from tonearm.client import (
    ConnectError,
    Disconnected,
    Event,
    Node,
    PlayerNotFound,
    Reconnected,
    TonearmError,
    Unauthorized,
    UnknownEvent,
)
from tonearm.core.printable import one_line, printable
from tonearm.process import ExitCode

_NO_FOLD: Final = 10_000


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Where the node is; `password` is empty without one."""

    url: str
    password: str = field(repr=False)


def run(at: NodeOptions, work: Callable[[Node], Awaitable[int]], *, timeout_s: float = 10.0) -> int:
    """What `work` returns, or the exit code for what it raised, which is told on stderr. SIGTERM and SIGHUP cancel it,
    so that it leaves nothing behind on the node."""
    stopped_by = 0

    async def reached() -> int:
        task = asyncio.current_task()
        assert task is not None

        def stop(number: int) -> None:
            nonlocal stopped_by
            stopped_by = number
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                asyncio.get_running_loop().add_signal_handler(number, stop, number)
        async with Node(at.url, password=at.password, timeout_s=timeout_s) as node:
            return await work(node)

    try:
        return asyncio.run(reached())
    except asyncio.CancelledError:
        return 128 + stopped_by  # what a shell shows for it
    except (ConnectError, Unauthorized) as error:
        is_wrong_use = isinstance(error, ConnectError) and error.cause == "wrong_address"
        return complain(error.message, ExitCode.WRONG_USE if is_wrong_use else ExitCode.UNREACHED)
    except TonearmError as error:
        return complain(with_remedy(error))


def with_remedy(error: TonearmError) -> str:
    """What the error says, with what is to be done about it in a terminal."""
    if isinstance(error, PlayerNotFound):
        return f"There is no player {error.player_id!r}; `tonearm players` shows those that there are."
    return error.message


@asynccontextmanager
async def patience(wait_s: float) -> AsyncIterator[Callable[[Event], str | None]]:
    """What it gives is to be told each event, and returns what is to be said about the connection. A node that stays
    away for `wait_s` ends what runs inside with a `ConnectError`."""
    try:
        async with asyncio.timeout(None) as limit:

            def take(event: Event) -> str | None:
                match event:
                    case Disconnected():
                        limit.reschedule(asyncio.get_running_loop().time() + wait_s)
                        return f"{event.reason} Trying for {wait_s:g} s to have it back."
                    case Reconnected():
                        limit.reschedule(None)
                        return f"The connection is back, after {event.away_s:.1f} s."
                    case _:
                        return None

            yield take
    except TimeoutError:
        raise ConnectError("lost", f"The node did not come back within {wait_s:g} s.") from None


def complain(sentence: str, code: int = ExitCode.FAILED) -> int:
    """On stderr. Returns `code`."""
    sys.stderr.write(f"tonearm: {one_line(sentence)}\n")
    return code


def say(line: str) -> None:
    """On stdout, at once, with a question mark for what its encoding has not. A reader who has had enough, as `head`
    has, ends the command without a word."""
    encoding = sys.stdout.encoding
    try:
        sys.stdout.write(f"{line}\n".encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        Console().on_broken_pipe()


def as_plain(value: Any) -> Any:
    """What a model is in JSON, as the node has sent it; the client's own events as if the node had."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, UnknownEvent):
        return value.fields
    if is_dataclass(value):
        named = {to_camel(one.name): as_plain(getattr(value, one.name)) for one in fields(value)}
        return {"op": type(value).__name__, **named}
    return value


def print_json(value: Any) -> None:
    """On one line."""
    say(json.dumps(as_plain(value), ensure_ascii=False))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], otherwise: str = "") -> None:
    """As `show`; `otherwise` is for no rows."""
    table = Table(box=None, header_style="bold", show_header=any(heads), pad_edge=False)
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    show(table if table.rows else otherwise)


def show(what: RenderableType) -> None:
    """In colours and folded only on a terminal: elsewhere a line is for `grep`."""
    console = Console(width=None if sys.stdout.isatty() else _NO_FOLD)
    with console.capture() as captured:
        console.print(what)
    say("\n".join(line.rstrip() for line in captured.get().splitlines()))


def clock(ms: float) -> str:
    """Such as 3:05, or 1:00:00."""
    seconds = int(ms / 1000)
    minutes = f"{seconds // 60 % 60}:{seconds % 60:02}"
    return minutes if seconds < 3600 else f"{seconds // 3600}:{minutes.rjust(5, '0')}"


def seen_by_node(uri: str, node_url: str) -> str:
    """A file of this folder by its whole path: the node's folder is another one."""
    is_here = any(host in node_url for host in ("127.0.0.1", "localhost", "[::1]"))
    return str(Path(uri).resolve()) if is_here and "://" not in uri and Path(uri).exists() else uri

"""The common parts of all commands: the connection to a node, an exit code for each kind of failure, and output."""

import asyncio
import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from io import StringIO
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from tonearm.client import (
    ApiError,
    ConnectError,
    Disconnected,
    Event,
    Node,
    Player,
    PlayerNotFound,
    Reconnected,
    TonearmError,
    Track,
    Unauthorized,
    UnknownEvent,
)
from tonearm.core.printable import one_line, printable
from tonearm.process import ExitCode

_NO_FOLD: Final = 10_000


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The address of the node. `password` is empty without one."""

    url: str
    password: str = field(repr=False)


class WrongUse(TonearmError):
    """The arguments of a command make no sense. The message says which arguments it takes."""


def run(at: NodeOptions, work: Callable[[Node], Awaitable[int]], *, timeout_s: float = 10.0) -> int:
    """Returns the result of `work`, or the exit code for its error, which is printed on stderr. SIGTERM and SIGHUP
    cancel `work`, so that it can clean up on the node."""
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
            try:
                return await work(node)
            except PlayerNotFound as error:
                near = get_close_matches(error.player_id, [one.id for one in await node.players()], 1)
                return complain(with_remedy(error, *near))

    try:
        return asyncio.run(reached())
    except asyncio.CancelledError:
        return 128 + stopped_by  # what a shell shows for it
    except (ConnectError, Unauthorized) as error:
        cause = error.cause if isinstance(error, ConnectError) else ""
        told = f"Nothing listens at {at.url}; start one with `tonearm serve`."
        return complain(
            told if cause == "nothing_listens" else error.message,
            ExitCode.WRONG_USE if cause == "wrong_address" else ExitCode.UNREACHED,
        )
    except TonearmError as error:
        return complain(with_remedy(error), ExitCode.WRONG_USE if isinstance(error, WrongUse) else ExitCode.FAILED)


def with_remedy(error: TonearmError, *near: str) -> str:
    """The message of the error, with advice for a terminal user. `near` is the player that may be meant."""
    if isinstance(error, PlayerNotFound):
        meant = "".join(f"did you mean {one!r}? " for one in near)
        return f"There is no player {error.player_id!r}; {meant}`tonearm players` shows all."
    return error.message


async def player_or_only(node: Node, name: str | None) -> Player:
    """The player of this name. Without a name, the only player of the node. Raises `TonearmError`."""
    if name is not None:
        return node.player(name)
    players = await node.players()
    if not players:
        raise TonearmError("There are no players; make one with `tonearm create NAME` or `tonearm play`.")
    if len(players) > 1:
        shown = ", ".join(player.id for player in players[:5]) + (", …" if len(players) > 5 else "")
        raise WrongUse(f"There are {len(players)} players; name one: {shown}.")
    return players[0]


async def playable(node: Node, given: Sequence[str]) -> list[str | Track]:
    """What to send to the node: a local file with its full path, anything that the node knows unchanged, and the best
    match for other words. If all are other words, they form one search. Raises `TonearmError`."""
    known = [await _known(node, seen_by_node(one, node.url)) for one in given]
    if not any(known):
        return [*await _best_match(node, " ".join(given))]
    found: list[str | Track] = []
    for uri, one in zip(known, given, strict=True):
        found += [uri] if uri else await _best_match(node, one)
    return found


async def _known(node: Node, uri: str) -> str | None:
    if "://" in uri or os.path.isabs(uri):
        return uri
    with suppress(ApiError):  # a form that is none, or a folder that the node must not read
        return uri if await node.explain(uri) is None else None
    return None


async def _best_match(node: Node, words: str) -> list[Track]:
    """The best match for a search. If the words are a link to a list, all its tracks."""
    found = await node.load(words, limit=1)
    if not found.tracks:
        raise TonearmError(found.problem)
    return found.tracks


@asynccontextmanager
async def patience(wait_s: float) -> AsyncIterator[Callable[[Event], str | None]]:
    """Gives a function that takes each event and returns a sentence about the connection, if there is one. If the node
    is away for `wait_s`, the block ends with a `ConnectError`."""
    try:
        async with asyncio.timeout(None) as limit:

            def take(event: Event) -> str | None:
                match event:
                    case Disconnected():
                        limit.reschedule(asyncio.get_running_loop().time() + wait_s)
                        return f"{event.reason} Reconnecting for up to {wait_s:g} s."
                    case Reconnected():
                        limit.reschedule(None)
                        return f"Reconnected after {event.away_s:.1f} s."
                    case _:
                        return None

            yield take
    except TimeoutError:
        raise ConnectError("lost", f"The node did not come back within {wait_s:g} s.") from None


def complain(sentence: str, code: int = ExitCode.FAILED) -> int:
    """Prints a sentence on stderr. Returns `code`."""
    with suppress(OSError):  # The reader of stderr is gone.
        sys.stderr.write(f"tonearm: {one_line(sentence)}\n")
    return code


def say(line: str) -> None:
    """Prints a line on stdout at once. Characters that its encoding lacks become question marks. If the reader closed
    the pipe, as `head` does, the command ends silently."""
    encoding = sys.stdout.encoding
    try:
        sys.stdout.write(f"{line}\n".encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):  # EIO: a terminal that is gone
            complain(f"stdout cannot be written: {error.strerror}.")
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
    """Prints JSON on one line."""
    say(json.dumps(as_plain(value), ensure_ascii=False))


def print_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    otherwise: str = "",
    narrowing: Sequence[tuple[str, int]] = (),
) -> None:
    """As `show`; `otherwise` is for no rows. With `narrowing` a row has one line: as long as there is not enough
    room, the columns of these heads are shortened to so many letters, one after the other, or go (0)."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = {head: max(map(cell_len, (head, *column))) for head, *column in zip(heads, *cells, strict=True)}
    whole = dict(widths)
    room = (_columns() if narrowing else None) or _NO_FOLD
    for head, least in narrowing:
        excess = sum(widths.values()) + 2 * len(widths) - 2 - room
        if excess > 0 and least:
            widths[head] = min(widths[head], max(widths[head] - excess, least))
        elif excess > 0:
            del widths[head]
    for head in widths:  # what the last column that went has left over
        free = room - sum(widths.values()) - 2 * len(widths) + 2
        widths[head] += max(min(free, whole[head] - widths[head]), 0)
    table = Table(box=None, header_style="bold", show_header=any(heads), pad_edge=False)
    for head, width in widths.items():
        table.add_column(head, **({"no_wrap": True, "width": width} if narrowing else {"overflow": "fold"}))
    for row in cells:
        table.add_row(*(Text(cell) for head, cell in zip(heads, row, strict=True) if head in widths))
    show(table if table.rows else otherwise, room if narrowing else None)


def _columns() -> int | None:
    """The width of the terminal, or of the variable COLUMNS. None without both: lines are then not limited."""
    is_given = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return max(shutil.get_terminal_size().columns, 1) if is_given else None


def show(what: RenderableType, columns: int | None = None) -> None:
    """Uses colours and line breaks only on a terminal, or with `columns`. Otherwise each line is whole, for `grep`."""
    shown = StringIO()
    console = Console(
        file=shown,
        force_terminal=sys.stdout.isatty(),
        width=columns or (None if sys.stdout.isatty() else _NO_FOLD),
    )
    console.print(what)
    say("\n".join(line.rstrip() for line in shown.getvalue().splitlines()))


def clock(ms: float) -> str:
    """The time in the form 3:05 or 1:00:00."""
    seconds = int(ms / 1000)
    minutes = f"{seconds // 60 % 60}:{seconds % 60:02}"
    return minutes if seconds < 3600 else f"{seconds // 3600}:{minutes.rjust(5, '0')}"


def seen_by_node(uri: str, node_url: str) -> str:
    """The full path of a file in this folder, because the node runs in another folder."""
    is_here = any(host in node_url for host in ("127.0.0.1", "localhost", "[::1]"))
    return str(Path(uri).resolve()) if is_here and "://" not in uri and os.path.exists(uri) else uri

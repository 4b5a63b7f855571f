"""`tonearm players`, `queue`, `info`, `events`: prints the node's answers as a table or as JSON."""

import asyncio
from contextlib import aclosing
from typing import Any

from tonearm.client import Event, Node, TonearmError
from tonearm.commands.running import (
    NodeOptions,
    as_plain,
    clock,
    complain,
    patience,
    player_or_only,
    print_json,
    print_table,
    run,
    say,
    seen_by_node,
)
from tonearm.core.printable import one_line
from tonearm.process import ExitCode


def show_players(as_json: bool, at: NodeOptions) -> int:
    async def work(node: Node) -> int:
        players = await node.players()
        if as_json:
            for player in players:
                print_json(
                    {
                        "id": player.id,
                        "state": player.state.value,
                        "paused": player.paused,
                        "position": player.position,
                        "listeners": player.listeners,
                        "queueLength": len(player.queue),
                        "track": as_plain(player.current),
                    }
                )
            return ExitCode.OK
        rows = []
        for player in players:
            info = player.current.info if player.current else None
            state = f"{player.state.value}, paused" if player.paused else player.state.value
            at = f"{clock(player.position)} / {clock(info.length)}" if info and info.length else clock(player.position)
            rows.append(
                (player.id, state, info.title if info else "", at, str(len(player.queue)), str(player.listeners))
            )
        heads = ("Player", "State", "Title", "Position", "Waiting", "Listeners")
        narrowing = [("Title", 13), ("Listeners", 0), ("Waiting", 0), ("Position", 0), ("Title", 6), ("State", 0)]
        print_table(heads, rows, "There are no players.", [*narrowing, ("Title", 0), ("Player", 1)])
        return ExitCode.OK

    return run(at, work)


def player_ids(at: NodeOptions) -> list[str]:
    """The ids of all players. Empty if no node answers within a moment."""

    async def ask() -> list[str]:
        async with Node(at.url, password=at.password, timeout_s=1.0) as node:
            return [player.id for player in await node.players()]

    try:
        return asyncio.run(ask())
    except TonearmError:
        return []


def show_queue(player: str | None, as_json: bool, at: NodeOptions) -> int:
    async def work(node: Node) -> int:
        tracks = await (await player_or_only(node, player)).queue.list(wait_ms=1000)
        if as_json:
            for track in tracks:
                print_json(track)
            return ExitCode.OK
        rows = (
            (str(number), track.title, track.author, clock(track.length) if track.length else "", track.id)
            for number, track in enumerate(tracks, 1)
        )
        heads = ("", "Title", "Author", "Length", "Id")
        narrowing = [("Title", 13), ("Author", 0), ("Length", 0), ("Title", 6), ("Id", 1), ("Title", 1)]
        print_table(heads, rows, "Nothing waits.", narrowing)
        return ExitCode.OK

    return run(at, work)


def show_info(uri: str, as_json: bool, at: NodeOptions) -> int:
    identifier = seen_by_node(uri, at.url)

    async def work(node: Node) -> int:
        found = await node.load(identifier)
        if not found.tracks:
            return complain(found.problem)
        track = found.tracks[0]
        if as_json:
            print_json(track if found.kind == "track" else found.tracks)
            return ExitCode.OK
        info = track.info
        if found.kind != "track":
            heads = ("", "Title", "Author", "Length")
            lines = [
                (str(n), one.info.title, one.info.author, clock(one.info.length))
                for n, one in enumerate(found.tracks, 1)
            ]
            print_table(heads, lines, "", [("Title", 13), ("Author", 0), ("Title", 1)])
            return ExitCode.OK
        length = "endless" if info.is_stream else clock(info.length) if info.length else "not known"
        rows = [("Title", info.title), ("Author", info.author), ("Length", length), ("From", info.uri)]
        rows += [("Seekable", "yes" if info.is_seekable else "no"), ("Encoded", track.encoded)]
        print_table(("", ""), [row for row in rows if row[1]])
        return ExitCode.OK

    return run(at, work)


def show_events(player: str | None, as_json: bool, wait_s: float, at: NodeOptions) -> int:
    """Prints events until the player is gone, or the node is away for `wait_s`."""

    async def work(node: Node) -> int:
        followed = await player_or_only(node, player)
        async with patience(wait_s) as heed, aclosing(followed.events()) as events:
            async for event in events:
                told = heed(event)
                if as_json:
                    print_json(event)
                else:
                    say(told or _line(event))
        return ExitCode.OK

    return run(at, work)


def _line(event: Event) -> str:
    """The name of the event, and those of its fields that fit in a line."""
    words = [type(event).__name__]
    for name in ("track", "title", "state", "position", "mode", "length", "listeners", "reason", "cause", "error"):
        value: Any = getattr(event, name, None)
        match name:
            case _ if value is None:
                continue
            case "track":
                words.append(value.info.title)
            case "position":
                words.append(clock(value))
            case "length":
                words.append(f"{value} waiting")
            case "listeners":
                words.append(f"{value} listening")
            case "error":
                words.append(f"{value.message} {value.hint}")
            case _:
                words.append(str(value))
    return "  ".join(one_line(word) for word in words if word)

"""`tonearm players`, `queue`, `info`, `events`: what a node says, as a table or as JSON."""

import click

from tonearm import exit_codes
from tonearm.client import Node, Reconnected
from tonearm.commands.running import as_plain, clock, complain, print_json, print_table, printable, run, seen_by_node


def show_players(url: str, password: str, as_json: bool) -> int:
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
            return exit_codes.OK
        rows = []
        for player in players:
            info = player.current.info if player.current else None
            state = f"{player.state.value}, paused" if player.paused else player.state.value
            at = f"{clock(player.position)} / {clock(info.length)}" if info and info.length else clock(player.position)
            rows.append(
                (player.id, state, info.title if info else "", at, str(len(player.queue)), str(player.listeners))
            )
        print_table(("Player", "State", "Title", "Position", "Waiting", "Listeners"), rows)
        return exit_codes.OK

    return run(url, password, work)


def show_queue(player: str, url: str, password: str, as_json: bool) -> int:
    async def work(node: Node) -> int:
        tracks = await node.player(player).queue.list(wait_ms=1000)
        if as_json:
            for track in tracks:
                print_json(track)
            return exit_codes.OK
        rows = (
            (str(number), track.title, track.author, clock(track.length) if track.length else "", track.id)
            for number, track in enumerate(tracks, 1)
        )
        print_table(("", "Title", "Author", "Length", "Id"), rows)
        return exit_codes.OK

    return run(url, password, work)


def show_info(uri: str, url: str, password: str, as_json: bool) -> int:
    identifier = seen_by_node(uri, url)

    async def work(node: Node) -> int:
        track = await node.load(identifier)
        if track is None:
            complain(await node.explain(identifier) or f"There is nothing to play at {uri}.")
            return exit_codes.FAILED
        if as_json:
            print_json(track)
            return exit_codes.OK
        info = track.info
        length = "endless" if info.is_stream else clock(info.length) if info.length else "not known"
        rows = [("Title", info.title), ("Author", info.author), ("Length", length), ("From", info.uri)]
        rows += [("Seekable", "yes" if info.is_seekable else "no"), ("Encoded", track.encoded)]
        print_table(("", ""), [row for row in rows if row[1]])
        return exit_codes.OK

    return run(url, password, work)


def show_events(player: str, url: str, password: str, as_json: bool) -> int:
    async def work(node: Node) -> int:
        async for event in node.player(player).events():
            name = type(event).__name__
            if as_json:
                plain = as_plain(event)
                print_json(plain if isinstance(plain, dict) else {"op": name, "id": player})
            else:
                track = getattr(event, "track", None)
                words = [name, track.info.title if track else "", str(getattr(event, "reason", None) or "")]
                error = getattr(event, "error", None)
                if error is not None:
                    words.append(f"{error.message} {error.hint}")
                if isinstance(event, Reconnected):
                    words.append(f"after {event.away_s:.1f} s")
                click.echo(printable("  ".join(word for word in words if word)))
        return exit_codes.OK

    return run(url, password, work)

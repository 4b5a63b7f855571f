"""`tonearm skip`, `add`, `volume` and the like: sends one request to a player and prints its new state in one line."""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from tonearm.client import ApiError, Node, Player, PlayerExists, TonearmError, Track
from tonearm.commands.running import (
    NodeOptions,
    WrongUse,
    clock,
    playable,
    player_or_only,
    print_json,
    run,
    say,
    seen_by_node,
)
from tonearm.core.play_queue import LoopMode
from tonearm.core.printable import one_line
from tonearm.process import ExitCode

_LARGEST_PERCENT: Final = 500
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_PERCENT: Final = re.compile(r"[+-]?[0-9]{1,4}%?")
_TIME: Final = re.compile(r"[+-]?([0-9]{1,6}:){0,2}[0-9]{1,6}(\.[0-9]{1,3})?")

# How many words come after the player's, the least and the most; what tells the first of them from a player's name,
# which may be left out; and what they are. All other orders have none.
_WORDS: Final[Mapping[str, tuple[int, float, Callable[[str], object], str]]] = {
    "add": (1, math.inf, lambda word: ":" in word or os.path.exists(word), ""),
    "remove": (1, math.inf, _NUMBER.fullmatch, "the numbers that `tonearm queue` shows"),
    "move": (2, 2, _NUMBER.fullmatch, "two of the numbers that `tonearm queue` shows"),
    "volume": (0, 1, _PERCENT.fullmatch, "80, +5 or -5, in percent"),
    "seek": (1, 1, _TIME.fullmatch, "1:30 or 90, or +10 or -10 from here"),
    "loop": (0, 1, list(LoopMode).__contains__, ", ".join(LoopMode)),
    "say": (1, 1, bool, ""),
}


def control(order: str, words: Sequence[str], as_json: bool, at: NodeOptions, **options: Any) -> int:
    """`words` are the player's id, if it is given, and the arguments of the order. `options` are the order's own
    options."""

    async def work(node: Node) -> int:
        if order == "create":
            player = await _created(node, words[0], await playable(node, words[1:]) if words[1:] else [])
        else:
            player, values = await _split(node, order, words)
            await _do(node, order, player, values, options)
        if order == "delete":
            print_json({"id": player.id, "state": "deleted"}) if as_json else say(f"{one_line(player.id)}: deleted")
            return ExitCode.OK
        state = await _state(node, player)
        print_json(state) if as_json else say(_line(state))
        return ExitCode.OK

    return run(at, work)


async def _created(node: Node, name: str, tracks: Sequence[str | Track]) -> Player:
    """A new player with these tracks. If the node refuses them, there is no player. Raises `TonearmError`."""
    try:
        player = await node.create_player(name)
    except PlayerExists:
        raise TonearmError(f"A player {name!r} exists; `tonearm add` puts tracks into its queue.") from None
    try:
        if tracks:
            await player.queue.put(*tracks)
    except ApiError:
        with suppress(TonearmError):
            await player.delete()
        raise
    return player


async def _split(node: Node, order: str, words: Sequence[str]) -> tuple[Player, Sequence[str]]:
    """The player, and the words after its id. Raises `WrongUse`."""
    least, most, is_value, form = _WORDS.get(order, (0, 0, bool, ""))
    is_named = len(words) > most
    if not is_named and len(words) > least:
        is_named = not is_value(words[0]) or words[0] in [player.id for player in await node.players()]
    values = words[1:] if is_named else words
    if not least <= len(values) <= most:
        raise WrongUse(f"Too {'few' if len(values) < least else 'many'} arguments; see tonearm {order} --help.")
    for value in values:
        if form and not is_value(value):
            raise WrongUse(f"`tonearm {order}` does not take {value!r}; it takes {form}.")
    return await player_or_only(node, words[0] if is_named else None), values


async def _do(node: Node, order: str, player: Player, values: Sequence[str], options: Mapping[str, Any]) -> None:
    """Sends the request of an order. Raises `TonearmError`."""
    match order, values:
        case "status" | "volume" | "loop", []:
            pass
        case "add", _:
            await player.queue.put(*await playable(node, values), index=0 if options["next"] else None)
        case "remove" | "move", _:
            tracks = await player.queue.list()
            if wrong := next((value for value in values if not 1 <= int(value) <= len(tracks)), None):
                raise TonearmError(f"The queue has no track {wrong}; {len(tracks)} tracks wait.")
            places = [int(value) - 1 for value in dict.fromkeys(values)]
            if order == "remove":
                for place in places:
                    await player.queue.remove(tracks[place])
            else:
                await player.queue.move(tracks[places[0]], places[-1])
        case "volume", [value]:
            now = 100 * (await _state(node, player))["volume"] if value[0] in "+-" else 0
            await player.set_volume(min(max(now + int(value.rstrip("%")), 0), _LARGEST_PERCENT) / 100)
        case "seek", [value]:
            ms = sum(round(1000 * float(part)) * 60**n for n, part in enumerate(value.strip("+-").split(":")[::-1]))
            await (player.seek_by(-ms if value[0] == "-" else ms) if value[0] in "+-" else player.seek(ms))
        case "loop", [value]:
            await player.set_loop(LoopMode(value))
        case "say", [value]:
            await player.overlay(seen_by_node(value, node.url), duck_db=options["duck"])
        case _:
            await getattr(player.queue if order in ("clear", "shuffle") else player, order)()


async def _state(node: Node, player: Player) -> Any:
    return await node.request("GET", f"/v0/players/{quote(player.id, safe='')}")


def _line(state: Mapping[str, Any]) -> str:
    """The player's state in one line, such as `radio: playing Song, 1:30 of 3:20, volume 80 %`."""
    told, info = state["state"], state["track"]["info"]
    if state["paused"] and told in ("playing", "loading"):
        told = "paused"
    if state["trackId"] and state["state"] != "idle":
        length = f" of {clock(info['length'])}" if info["length"] and not info["isStream"] else ""
        told += f" {info['title']}, {clock(state['position'])}{length}"
    if state["error"] and state["state"] == "failed":
        told += f" ({state['error']['message']})"
    told += f", volume {round(100 * state['volume'])} %"
    told += "" if state["loop"] == "none" else f", loop {state['loop']}"
    told += f", {state['queueLength']} waiting" if state["queueLength"] else ""
    return one_line(f"{state['id']}: {told}")

"""`tonearm nodes` and `tonearm drain`: lists the nodes of a cluster, and makes one node hand over its players."""

import asyncio
import time
from typing import Any, Final
from urllib.parse import quote

from tonearm.client import ApiError, Node, TonearmError
from tonearm.commands.running import NodeOptions, WrongUse, print_json, print_table, run, say
from tonearm.core.printable import one_line
from tonearm.process import ExitCode

_LOOKS_EVERY_S: Final = 0.5
_PATIENCE_S: Final = 30.0


def show_nodes(as_json: bool, at: NodeOptions) -> int:
    async def work(node: Node) -> int:
        nodes = await _nodes(node)
        if as_json:
            for one in nodes:
                print_json(one)
            return ExitCode.OK
        rows = [
            (
                one["name"],
                one["address"],
                "draining" if one["draining"] else "alive" if one["alive"] else "lost",
                str(one["players"]),
                f"{one['load']:.0%}",
                f"{one['leaseAgeMs'] / 1000:.1f} s",
            )
            for one in nodes
        ]
        print_table(("Node", "Address", "State", "Players", "Load", "Last sign"), rows)
        return ExitCode.OK

    return run(at, work)


def drain_node(name: str | None, undo: bool, as_json: bool, at: NodeOptions, *, patience_s: float = _PATIENCE_S) -> int:
    """Drains the node `name`; None is the node that is asked. Returns when it has no players any more, or when none has
    gone for `patience_s`; with `undo` at once."""

    async def work(node: Node) -> int:
        await _nodes(node)
        path = f"/v0/nodes/{'self' if name is None else quote(name, safe='')}"
        await node.request("DELETE" if undo else "POST", f"{path}/drain")
        shown = await node.request("GET", path)
        last, last_s, was_draining = None, 0.0, False
        while not undo and shown["players"]:
            if shown["players"] == last and time.monotonic() - last_s >= patience_s:
                raise TonearmError(
                    f"{shown['name']} still has {last} players, and none of them has gone for {patience_s:g} s. Its "
                    "log says why; `tonearm nodes` shows which nodes take players. It drains on until `drain --undo`."
                )
            if shown["players"] != last:
                last, last_s = shown["players"], time.monotonic()
                if not as_json:
                    say(f"{one_line(shown['name'])}: {last} players left to move")
            was_draining = was_draining or shown["draining"]
            await asyncio.sleep(_LOOKS_EVERY_S)
            shown = await node.request("GET", path)
            # The node that is asked learns of another one's drain with the next record of that.
            if was_draining and not shown["draining"]:
                raise WrongUse(f"{shown['name']} is no longer drained: somebody else undid it.")
        if as_json:
            print_json(shown)
        else:
            done = "takes players again" if undo else "has no players left and can be stopped"
            say(f"{one_line(shown['name'])}: {done}")
        return ExitCode.OK

    return run(at, work)


async def _nodes(node: Node) -> list[Any]:
    try:
        listed = await node.request("GET", "/v0/nodes")
    except ApiError as error:
        if error.status == 404:
            raise WrongUse("This node is in no cluster; docs/cluster.md says how to make one.") from error
        raise
    nodes: list[Any] = listed["nodes"]
    return nodes

"""Opus in, Opus out, with nothing to change: packets that are passed through untouched, at 50 and 200 players."""

from typing import Final

from bench.parts.window import add_window
from bench.plan import Run
from bench.streaming import streaming
from bench.subjects import tonearm_node

SOURCE: Final = "opus"
FEW: Final = 50
MANY: Final = 200
_HEAD_BYTES: Final = 16
_PASSED_THROUGH: Final = 8  # a flag, in the second byte of the head
_LOOKED_AT: Final = 50
_MOST_ENCODED: Final = 5  # where it begins


async def passthrough(run: Run) -> None:
    if not await passes_through(run):
        return
    async with streaming(tonearm_node(run.folder), run.uri(SOURCE), audio="opus") as node:
        pss_mb = {}
        for players in (FEW, MANY):
            await node.grow_to(players)
            await add_window(run, node, f"passthrough/{players}")
            pss_mb[players] = node.subject.pss_mb()
        run.figures.add("passthrough/mb_a_player", (pss_mb[MANY] - pss_mb[FEW]) / (MANY - FEW))


async def passes_through(run: Run) -> bool:
    """Whether a node passes packets through. Where it encodes instead, that is a problem of the run: the figures
    would be others."""
    async with streaming(tonearm_node(run.folder), run.uri(SOURCE), audio="opus") as node:
        await node.grow_to(1)
        path = f"{node.subject.path('p0', 'opus')}&header=1"
        async with node.session.ws_connect(node.subject.url + path, max_msg_size=0) as socket:
            packets = [await socket.receive_bytes() for _ in range(_LOOKED_AT)]
    encoded = sum(len(packet) < _HEAD_BYTES or not packet[1] & _PASSED_THROUGH for packet in packets)
    if encoded > _MOST_ENCODED:
        run.figures.problem(f"passthrough: {encoded} of {_LOOKED_AT} packets were encoded, so nothing was measured")
    return encoded <= _MOST_ENCODED

"""`python -m bench.compare TREE TREE …`: compares the CPU cost of a frame between nodes of several source trees. All
nodes play at the same time.

A machine that grows slower meets all alike, so two trees are told apart by some 3 % where one after the other takes 15.
Each tree has its own `.venv` (`make dev`). The first is what the others are compared with.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import uvloop

from bench import media
from bench.streaming import SETTLE_S, Streaming, streaming
from bench.subjects import tonearm_node


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    uvloop.run(_compare(options))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--players", type=int, default=40, help="of each node (40)")
    parser.add_argument("--rounds", type=int, default=5, help="how often all nodes are started and measured (5)")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of each window (15)")
    parser.add_argument("--format", default="mp3", choices=list(media.FORMATS), help="of the file (mp3)")
    parser.add_argument("--file", type=Path, help="to play, in place of one in that format")
    parser.add_argument("--settle", type=float, default=SETTLE_S, help="seconds before each window (2)")
    parser.add_argument("--audio", default="pcm", choices=["pcm", "opus"], help="that the listeners want (pcm)")
    parser.add_argument("--bands", action="store_true", help="with 5 bands of the equalizer")
    return parser.parse_args(arguments)


async def _compare(options: argparse.Namespace) -> None:
    costs: list[list[float]] = [[] for _ in options.trees]  # by tree, µs a frame of each round
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        uri = str(options.file or await asyncio.to_thread(media.make_file, folder, options.format))
        for number in range(options.rounds):
            first = number % len(options.trees)
            order = [*range(first, len(options.trees)), *range(first)]
            for index, cost in (await _round(options, folder, uri, order)).items():
                costs[index].append(cost)
            ratios = [tree[-1] / costs[0][-1] for tree in costs]
            print(_line([tree[-1] for tree in costs], ratios), flush=True)
    print("median", _line([*map(median, costs)], [_ratio(tree, costs[0]) for tree in costs]))


async def _round(options: argparse.Namespace, folder: Path, uri: str, order: list[int]) -> dict[int, float]:
    """Starts the nodes of the trees in this order. Returns the µs a frame of each."""
    async with AsyncExitStack() as stack:
        nodes: dict[int, Streaming] = {}
        for index in order:
            own = folder / str(index)
            own.mkdir(exist_ok=True)
            subject = tonearm_node(own, python=str(options.trees[index].absolute() / ".venv" / "bin" / "python"))
            streams = streaming(subject, uri, bands=options.bands, audio=options.audio, settle_s=options.settle)
            nodes[index] = await stack.enter_async_context(streams)
        await asyncio.gather(*(node.grow_to(options.players) for node in nodes.values()))
        windows = await asyncio.gather(*(node.window(options.seconds) for node in nodes.values()))
        for window in windows:
            if not window.is_even:
                print("uneven:", f"worst share {window.evenness.worst_share:.1%}")
    return {index: window.us_a_frame for index, window in zip(nodes, windows, strict=True)}


def _ratio(tree: list[float], other: list[float]) -> float:
    return median(one / two for one, two in zip(tree, other, strict=True))


def _line(costs: list[float], ratios: list[float]) -> str:
    return "  ".join(f"{cost:6.1f} µs ({ratio:.3f})" for cost, ratio in zip(costs, ratios, strict=True))


if __name__ == "__main__":
    main()

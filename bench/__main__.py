"""`python -m bench`: measures the node, the plain relay and the floor in one run, and prints a table.

Needs the `ffmpeg` program for the relay and the floor. Everything is interleaved and repeated; medians are printed
with their spread, and ratios are of medians of the same run.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path

from bench import media, parts
from bench.figures import Figures

PARTS = {
    "cost": parts.cost_by_format,
    "growth": parts.growth,
    "capacity": parts.capacity,
    "control": parts.control,
    "fanout": parts.fanout,
    "unheard": parts.unheard,
    "startup": parts.startup,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each measurement is made")
    parser.add_argument("--seconds", type=float, default=6.0, help="length of each measurement")
    parser.add_argument("--formats", nargs="*", default=list(media.FORMATS), choices=list(media.FORMATS))
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--json", action="store_true", help="figures as JSON instead of a table")
    options = parser.parse_args()
    if shutil.which("ffmpeg") is None:
        sys.exit("The bench needs the ffmpeg program in PATH (for the relay and the floor): install it and try again.")
    with tempfile.TemporaryDirectory(prefix="tonearm-bench-") as folder:
        plan = parts.Plan(Path(folder), options.rounds, options.seconds, tuple(options.formats))
        figures = asyncio.run(_run(plan, options.parts))
    print(json.dumps(figures.as_json(), indent=1) if options.json else figures.as_table())


async def _run(plan: parts.Plan, names: list[str]) -> Figures:
    figures = Figures()
    for name in names:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        await PARTS[name](plan, figures)
    return figures


if __name__ == "__main__":
    main()

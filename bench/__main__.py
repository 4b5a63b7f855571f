"""`python -m bench`: measures the node, the plain relay and the floor in one run, and prints tables.

Needs the `ffmpeg` program for the relay and the floor. Every round measures everything once. Medians are shown with
their spread, and ratios compare values of the same round. Ctrl-C ends the run and prints what was measured so far.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

import uvloop

from bench import media
from bench.figures import Figures
from bench.limits import raise_file_limit
from bench.order_pipe import order_pipe
from bench.parts.capacity import KINDS
from bench.plan import MAIN_FORMAT, Plan, Run
from bench.quiet import Ticker
from bench.report import as_json, as_text
from bench.rounds import carry_out
from bench.schedule import PARTS


def main() -> None:
    options = _options()
    if shutil.which("ffmpeg") is None:
        sys.exit("The bench needs the ffmpeg program in PATH (for the relay and the floor): install it and try again.")
    plan = _plan(options)
    figures = Figures()
    raise_file_limit()
    try:
        uvloop.run(_measure(plan, figures, options.output))
    except KeyboardInterrupt:
        figures.problem("interrupted: later steps and rounds are missing")
    _write(figures, plan, options.output)
    print(json.dumps(as_json(figures, plan), indent=1) if options.json else as_text(figures, plan))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help="how often everything is measured (3)")
    parser.add_argument("--seconds", type=float, help="length of each window (4)")
    parser.add_argument("--formats", nargs="+", default=list(media.FORMATS), choices=list(media.FORMATS))
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument(
        "--capacity-kinds",
        nargs="+",
        default=list(KINDS),
        choices=list(KINDS),
        help="of what the most players are found",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="ten minutes instead of an hour: one round, windows of 2 seconds, capacity of MP3 only",
    )
    parser.add_argument("--json", action="store_true", help="figures as JSON instead of tables")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write JSON there too, after each round")
    return parser.parse_args()


def _plan(options: argparse.Namespace) -> Plan:
    formats = tuple(options.formats)
    return Plan(
        rounds=options.rounds or (1 if options.quick else 3),
        seconds=options.seconds or (2.0 if options.quick else 4.0),
        formats=formats,
        capacity_formats=tuple(name for name in formats if name == MAIN_FORMAT) if options.quick else formats,
        parts=tuple(options.parts),
        capacity_kinds=tuple(options.capacity_kinds),
    )


async def _measure(plan: Plan, figures: Figures, output: Path | None) -> None:
    with tempfile.TemporaryDirectory(prefix="tonearm-bench-") as folder:
        async with order_pipe("bench.ticker") as pipe:
            run = Run(plan, Path(folder), figures, Ticker(pipe))
            print("making the files …", file=sys.stderr, flush=True)
            for name in {*plan.formats, MAIN_FORMAT}:
                run.uri(name)
            await carry_out(run, lambda: _write(figures, plan, output))


def _write(figures: Figures, plan: Plan, output: Path | None) -> None:
    if output is not None:
        output.write_text(json.dumps(as_json(figures, plan), indent=1) + "\n")


if __name__ == "__main__":
    main()

"""The steps of one round: every part once, with its estimated duration."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from bench.parts.capacity import capacity, kinds_of
from bench.parts.cost import cost
from bench.parts.fanout import fanout
from bench.parts.filters import filters
from bench.parts.growth import BANDS_PLAYERS, FLAT_PLAYERS, growth
from bench.parts.no_listeners import no_listeners
from bench.parts.opus import opus
from bench.parts.overload import overload
from bench.parts.passthrough import passthrough
from bench.parts.reaction import reaction
from bench.parts.seek import seek
from bench.parts.sleep import sleep
from bench.parts.startup import startup
from bench.parts.steps import steps
from bench.parts.watching import watching
from bench.plan import Plan, Run

_SINGLE: Final = {
    "growth": growth,
    "control": reaction,
    "seek": seek,
    "opus": opus,
    "passthrough": passthrough,
    "fanout": fanout,
    "no_listeners": no_listeners,
    "sleep": sleep,
    "startup": startup,
    "steps": steps,
    "filters": filters,
    "overload": overload,
    "watching": watching,
}
PARTS: Final = ("cost", "growth", "capacity", *(part for part in _SINGLE if part != "growth"))


@dataclass(frozen=True)
class Step:
    """`expected_s` is a guess on a quiet machine; only how the steps stand to each other matters."""

    title: str
    expected_s: float
    measure: Callable[[Run], Awaitable[None]]


def steps_of_round(plan: Plan, number: int) -> list[Step]:
    """`number` counts from 1: the first round searches longer for the edges."""
    found: list[Step] = []
    for part in plan.parts:
        if part == "cost":
            found += [Step(f"cost, {name}", 24 + 3 * plan.seconds, partial(cost, name=name)) for name in plan.formats]
        elif part == "capacity":
            found += [
                Step(
                    f"capacity, {name}, {kind}",
                    _trials(number, kind) * (7 + plan.seconds),
                    partial(capacity, name=name, kind=kind),
                )
                for name in plan.capacity_formats
                for kind in kinds_of(plan, name)
            ]
        else:
            found.append(Step(part, _expected_s(part, plan), _SINGLE[part]))
    return found


def _trials(number: int, kind: str) -> int:
    return 3 if number > 1 or kind == "relay" else 6


def _expected_s(part: str, plan: Plan) -> float:
    seconds = plan.seconds
    match part:
        case "growth":
            return 33 + 3.5 * (len(FLAT_PLAYERS) + len(BANDS_PLAYERS)) + seconds * 8
        case "control":
            return 22
        case "seek":
            return 30
        case "opus":
            return 84 + 14 * seconds
        case "passthrough":
            return 20 + 2 * seconds
        case "sleep":
            return 32 + 54 * len(plan.formats)
        case "filters":
            return 20
        case "overload":
            return 260
        case "watching":
            return 25 + plan.seconds
        case "startup":
            return 6
        case "fanout":
            return 8 + 3 * seconds
        case _:
            return 9 + 2 * seconds

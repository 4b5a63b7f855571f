"""Prints the figures for people: the goals first, then all figures by format and number of players, then remarks."""

from typing import Final

from bench.figures import Figures, summary
from bench.goals import Verdict, verdicts
from bench.parts.capacity import capacity_name
from bench.parts.filters import OVERLAYS, SETTINGS
from bench.parts.growth import FLAT_PLAYERS
from bench.parts.opus import COMPLEXITIES
from bench.parts.passthrough import FEW, MANY
from bench.parts.steps import ROLES
from bench.plan import Plan
from bench.text_table import shown, text_table

_FLAT_FILTERS: Final = "filters/flat/us_a_frame"
_SUBJECTS: Final = {"flat": "node, flat", "bands": "node, 5 bands", "relay": "relay"}
# Of one window one figure is named as noisy, not each that was read from it.
_SAME_WINDOW: Final = ("late_p99_ms", "worst_share", "p50_ms", "p95_ms")
_REST: Final = frozenset(
    {"growth", "fanout", "no_listeners", "sleep", "startup", "overload", "watching"}
)  # parts without a table
_NOT_MEASURED: Final = "-"
_SAID: Final[dict[bool | None, str]] = {True: "reached", False: "missed", None: "not measured"}


def as_text(figures: Figures, plan: Plan) -> str:
    blocks = [
        _goals(figures),
        *(_formats(figures, plan) if "cost" in plan.parts or "capacity" in plan.parts else []),
        *([_growth(figures)] if "growth" in plan.parts else []),
        *([_reactions(figures)] if {"control", "seek", "opus"} & set(plan.parts) else []),
        *([_opus(figures)] if {"opus", "passthrough"} & set(plan.parts) else []),
        *([_rest(figures)] if _REST & set(plan.parts) else []),
        *([_steps(figures)] if "steps" in plan.parts else []),
        *([_filters(figures)] if "filters" in plan.parts else []),
        _oddities(figures),
    ]
    return "\n\n".join(block for block in blocks if block)


def as_json(figures: Figures, plan: Plan) -> dict[str, object]:
    return {
        "plan": {"rounds": plan.rounds, "seconds": plan.seconds, "formats": plan.formats, "parts": plan.parts},
        "goals": [_goal_as_json(verdict) for verdict in verdicts(figures)],
        "figures": figures.as_json(),
        "problems": figures.problems,
    }


def _goal_as_json(verdict: Verdict) -> dict[str, object]:
    measured = verdict.measured
    return {
        "goal": verdict.goal.title,
        "limit": verdict.goal.limit,
        "at_least": verdict.goal.at_least,
        "unit": verdict.goal.unit,
        "figure": verdict.goal.figure,
        "below": verdict.goal.below or None,
        "median": measured and measured.median,
        "min": measured and measured.least,
        "max": measured and measured.most,
        "reached": verdict.is_reached,
    }


def _goals(figures: Figures) -> str:
    rows = []
    for verdict in verdicts(figures):
        goal = verdict.goal
        of_what = ""
        if goal.below and verdict.measured:
            above, below = figures.summary(goal.figure), figures.summary(goal.below)
            of_what = f"{shown(above)} / {shown(below)}"
        rows.append(
            [
                goal.title + _mark(figures, goal.figure, goal.below),
                f"{'≥' if goal.at_least else '≤'} {goal.limit:g} {goal.unit}",
                shown(verdict.measured, goal.unit),
                _SAID[verdict.is_reached],
                of_what,
            ]
        )
    return text_table("Goals", ["figure", "goal", "measured", "", "of"], rows)


def _formats(figures: Figures, plan: Plan) -> list[str]:
    rows = []
    for name in plan.formats:
        floor = f"floor/{name}/us_a_frame"
        relay = f"cost/{name}/relay/us_a_frame"
        rows.append([f"{name}: floor", shown(figures.summary(floor)), "", "", "", ""])
        for kind in _SUBJECTS:
            cost = f"cost/{name}/{kind}/us_a_frame"
            rows.append(
                [
                    f"{name}: {_SUBJECTS[kind]}",
                    shown(figures.summary(cost)),
                    shown(summary(figures.ratios(cost, floor))),
                    shown(summary(figures.ratios(cost, relay))) if kind != "relay" else "",
                    shown(figures.summary(f"cost/{name}/{kind}/mb_a_player")),
                    shown(figures.summary(capacity_name(name, kind))),
                ]
            )
    head = ["50 players", "µs a frame", "/ floor", "/ relay", "MB a player", "capacity"]
    return [text_table("Formats", head, rows)]


def _growth(figures: Figures) -> str:
    rows = []
    for kind in ("flat", "bands"):
        for players in FLAT_PLAYERS:
            name = f"growth/{kind}/{players}"
            if figures.summary(f"{name}/us_a_frame"):
                cells = ("us_a_frame", "pss_mb", "late_p99_ms", "worst_share")
                rows.append(
                    [
                        f"{players}, {'5 bands' if kind == 'bands' else kind}",
                        *(shown(figures.summary(f"{name}/{cell}")) for cell in cells),
                    ]
                )
    return text_table("Growth, MP3", ["players", "µs a frame", "MB", "late p99 ms", "worst listener's share"], rows)


def _reactions(figures: Figures) -> str:
    rows = [
        [title, *(shown(figures.summary(f"{name}/{cell}")) for cell in (value, "p95_ms", "p99_ms", "ticker_p99_ms"))]
        for title, name, value in (
            ("first frame, file", "first_frame/file", "ms"),
            ("first frame, HTTP", "first_frame/http", "ms"),
            ("filter heard, 1 player", "filter_heard/1", "ms"),
            ("filter heard, 100 players", "filter_heard/100", "ms"),
            ("seek heard, file", "seek_heard/file", "ms"),
            ("seek heard, HTTP", "seek_heard/http", "ms"),
            ("seek heard, file, 100 players", "seek_heard/100", "ms"),
            ("first Opus packet, file", "opus/first_packet", "ms"),
            ("filter heard, Opus, 1 player", "opus/filter_heard/1", "ms"),
            ("filter heard, Opus, 25 players", "opus/filter_heard/25", "ms"),
            ("control request, 100 players", "control/100", "p50_ms"),
        )
    ]
    measured = [row for row in rows if any(cell != _NOT_MEASURED for cell in row[1:])]
    return text_table("Reactions, ms", ["", "median", "p95", "p99", "bare ticker p99"], measured)


def _opus(figures: Figures) -> str:
    titles = {
        f"opus/{complexity}/{name}": f"{title}, complexity {complexity}"
        for complexity in COMPLEXITIES
        for name, title in (
            ("libopus", "libopus alone, in a loop"),
            ("libopus_paced", "libopus alone, paced, 25 encoders"),
            ("pcm", "MP3 to PCM"),
            ("node", "MP3 to Opus"),
            ("relay", "relay, MP3 to Opus"),
        )
    }
    titles["opus/second_format"] = "Opus for others, beside PCM"
    titles["opus/libopus_and_bare_write"] = "libopus alone, in a loop, and a bare write"
    titles["opus/libopus_paced_and_bare_write"] = "libopus alone, paced, and a bare write"
    titles |= {f"passthrough/{players}": f"Opus passed through, {players} players" for players in (FEW, MANY)}
    found = [(title, figures.summary(f"{name}/us_a_frame")) for name, title in titles.items()]
    rows = [[title, shown(values)] for title, values in found if values is not None]
    return text_table("Opus", ["", "µs a frame"], rows) if rows else ""


def _rest(figures: Figures) -> str:
    begins = ("growth/empty", "growth/flat/mb", "growth/bands/mb", *(f"{part}/" for part in _REST - {"growth"}))
    names = [name for name in figures.values if name.startswith(begins)]
    return text_table("The rest", ["figure", "measured"], [[name, shown(figures.summary(name))] for name in names])


def _filters(figures: Figures) -> str:
    rows = []
    for name in (*SETTINGS, *OVERLAYS):
        figure = f"filters/{name}/us_a_frame"
        more = [value - flat for value, flat in zip(figures.all(figure), figures.all(_FLAT_FILTERS), strict=False)]
        rows.append([name, shown(figures.summary(figure)), "" if name == "flat" else shown(summary(more))])
    return text_table("Filters, in one process without decoding", ["", "µs a frame", "more than flat"], rows)


def _steps(figures: Figures) -> str:
    rows = [
        [
            role.replace("_", ", "),
            *(
                shown(figures.summary(f"steps/{kind}/{role}/{cell}"))
                for kind in ("flat", "bands")
                for cell in ("us_a_frame", "switches_a_second")
            ),
        ]
        for role in ROLES
    ]
    head = ["thread", "flat, µs a frame", "switches a second", "5 bands, µs a frame", "switches a second"]
    return text_table("CPU by threads, MP3, 50 players", head, rows)


def _oddities(figures: Figures) -> str:
    lines = [
        f"* noisy: {name}: {len(late)} of {len(figures.all(name))}, beside a bare ticker with a p99 of {_ms(late)}"
        for name, late in figures.noisy.items()
        if name.rpartition("/")[2] not in _SAME_WINDOW
    ]
    return "\n".join([*lines, *(f"! {problem}" for problem in figures.problems)])


def _mark(figures: Figures, *names: str) -> str:
    """A star for what was noisy, an exclamation mark for what was measured while listeners went short."""
    return "*" * any(name in figures.noisy for name in names) + "!" * any(name in figures.unserved for name in names)


def _ms(values: list[float]) -> str:
    least, most = f"{min(values):.1f}", f"{max(values):.1f}"
    return f"{least} ms" if least == most else f"{least} to {most} ms"

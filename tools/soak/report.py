"""The report of a soak: one HTML file, with its plots drawn as SVG."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

from tools.soak.levels import Level

_WIDTH: Final = 860
_HEIGHT: Final = 150
_PLOTS: Final = (
    ("Memory of all processes, MB", "memory_mb"),
    ("Descriptors of the node", "descriptors"),
    ("Sockets of the node", "sockets"),
    ("Threads of the node", "threads"),
    ("Processes below the node", "processes"),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """`is_wrong`: the soak has failed by it."""

    subject: str
    text: str
    is_wrong: bool = False


def report_html(
    title: str, findings: Sequence[Finding], levels: Sequence[Level], moments: Sequence[tuple[float, str]]
) -> str:
    """`moments` are marked in every plot: what was done to the node when, in seconds."""
    rows = "".join(
        f'<tr class="{"wrong" if one.is_wrong else "ok"}"><td>{"WRONG" if one.is_wrong else "ok"}</td>'
        f"<td>{escape(one.subject)}</td><td>{escape(one.text)}</td></tr>"
        for one in findings
    )
    plots = "".join(_plot(name, [(one.at_s, getattr(one, field)) for one in levels], moments) for name, field in _PLOTS)
    for kind in sorted({kind for one in levels for kind in one.memory}):
        points = [(one.at_s, one.memory[kind].private_mb if kind in one.memory else 0.0) for one in levels]
        plots += _plot(f"Memory of its own in every {kind}, together, MB", points, moments)
    rates = [
        (later.at_s, max(0.0, later.cpu_s - before.cpu_s) / max(0.001, later.at_s - before.at_s))
        for before, later in pairwise(levels)
    ]
    return (
        f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title><style>"
        "body{font:14px sans-serif;margin:2em;max-width:60em}td{padding:.2em .8em}tr.wrong{background:#fcc}"
        "svg{background:#f7f7f7;display:block}</style>"
        f"<h1>{escape(title)}</h1><table>{rows}</table>{plots}{_plot('CPU, cores', rates, moments)}"
    )


def _plot(name: str, points: Sequence[tuple[float, float]], moments: Sequence[tuple[float, str]]) -> str:
    if not points:
        return ""
    last_s, most = max(points[-1][0], 1.0), max(1e-9, *(value for _, value in points))

    def x(at_s: float) -> float:
        return at_s / last_s * _WIDTH

    line = " ".join(f"{x(at_s):.1f},{_HEIGHT - value / most * (_HEIGHT - 10):.1f}" for at_s, value in points)
    marks = "".join(
        f'<line x1="{x(at_s):.1f}" x2="{x(at_s):.1f}" y1="0" y2="{_HEIGHT}" stroke="#c66" stroke-dasharray="3">'
        f"<title>{escape(what)}</title></line>"
        for at_s, what in moments
    )
    return (
        f"<h3>{escape(name)}: 0 to {most:.4g}, over {last_s:.0f} s</h3>"
        f'<svg width="{_WIDTH}" height="{_HEIGHT}">{marks}'
        f'<polyline points="{line}" fill="none" stroke="#247" stroke-width="1.5"/></svg>'
    )

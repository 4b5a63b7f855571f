"""Columns in plain text."""

from collections.abc import Sequence

from bench.figures import Summary


def text_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in [head, *rows]
    ]
    return "\n".join([title, "-" * len(title), *lines])


def number(value: float) -> str:
    """Three digits that say something, or all before the point."""
    size = abs(value)
    return f"{value:.0f}" if size >= 100 or value == int(value) else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def shown(values: Summary | None, unit: str = "") -> str:
    """The median, and the spread when there is one; a dash for what was not measured."""
    if values is None:
        return "-"
    spread = f" ({number(values.least)} to {number(values.most)})" if values.count > 1 else ""
    return f"{number(values.median)}{' ' * bool(unit)}{unit}{spread}"

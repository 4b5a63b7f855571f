"""The plan of a run: what is measured, and the parameters of each part."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import media
from bench.figures import Figures
from bench.quiet import Ticker

MAIN_FORMAT: Final = "mp3"  # what is not measured for every format is measured for this


@dataclass(frozen=True)
class Plan:
    """`seconds` is the length of one window; capacity, the dearest, may be wanted for fewer formats."""

    rounds: int
    seconds: float
    formats: tuple[str, ...]
    capacity_formats: tuple[str, ...]
    parts: tuple[str, ...]
    capacity_kinds: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """A plan that is carried out: files are made in `folder`, values gather in `figures`."""

    plan: Plan
    folder: Path
    figures: Figures
    ticker: Ticker

    def uri(self, name: str) -> str:
        return str(media.make_file(self.folder, name))

"""What the page makes of a player's state, in the page's own words: they run in node."""

import json
from itertools import product
from pathlib import Path
from typing import Any

from tests.support.missing_programs import needs
from tests.support.page_in_node import run_page
from tonearm.core.filters import Compressor, Effects, Filters, Limiter, Normalization
from tonearm.dashboard.page_files import page_files
from tonearm.protocol.rendering import filters_out

SCHEMA = json.loads(page_files([])["effects.json"].body)
# Prints a list of what each call gives.
PROGRAM = """
import * as page from "./player_state.js";
console.log(JSON.stringify(given.map(([name, ...values]) => page[name](...values))));
"""


def called(folder: Path, *calls: tuple[Any, ...]) -> Any:
    """What functions of `player_state.js` give; a call is a name and its arguments."""
    return run_page(folder, PROGRAM, *calls)


def state_of(effects: Effects, volume: float = 1.0, gains_db: tuple[float, ...] = Filters().gains_db) -> dict[str, Any]:
    return {
        **filters_out(Filters(volume, gains_db, effects)),
        "crossfade": {"durationMs": 0, "curve": "equalPower", "onSkip": False},
        "overlays": [],
    }


OFF = Normalization(mode="off")


@needs("node")
def test_the_limiter_is_on_when_the_node_has_it_on(tmp_path: Path) -> None:
    limiters = (None, Limiter(), Limiter(enabled=True), Limiter(enabled=False))
    every = [
        Effects(limiter=limiter, normalization=normalization, compressor=compressor)
        for limiter, normalization, compressor in product(limiters, (None, OFF, Normalization()), (None, Compressor()))
    ]
    shown = called(tmp_path, *(("isLimiting", state_of(effects)) for effects in every))
    for effects, is_limiting in zip(every, shown, strict=True):
        assert is_limiting == effects.limits(with_overlays=False, crossfades=False), effects


@needs("node")
def test_what_is_at_work_follows_the_order_of_the_sound(tmp_path: Path) -> None:
    names = list(SCHEMA["properties"])
    on = {name: {"enabled": True} for name in names}
    loud = {**state_of(Effects(), 0.5, (3.0,) * 15), **on}
    quiet = state_of(Effects(normalization=OFF))
    at_work, none_at_work = called(tmp_path, ("effectsAtWork", loud, SCHEMA), ("effectsAtWork", quiet, SCHEMA))
    assert at_work == [
        *("timescale", "karaoke", "eq", "lowPass", "highPass", "channelMix", "tremolo", "vibrato", "rotation"),
        *("distortion", "echo", "compressor", "normalization", "volume", "limiter"),
    ]
    assert none_at_work == []

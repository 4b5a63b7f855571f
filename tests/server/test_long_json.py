"""Long arrays are read in parts, and what comes out is what the parser makes of the whole."""

import contextlib
import json
import random

import pytest
from pydantic_core import from_json

from tests.support.examples import SEED
from tonearm.core.metadata import Json
from tonearm.server.long_json import PART_VALUES, read_long_json


class Parser:
    """Notes the size of the largest piece that it was given."""

    def __init__(self) -> None:
        self.largest = 0

    def __call__(self, raw: bytes) -> Json:
        self.largest = max(self.largest, raw.count(b",") + raw.count(b"[") + raw.count(b"{"))
        value: Json = from_json(raw, allow_inf_nan=False)
        return value


def record(tracks: int, values: int) -> Json:
    return {
        "id": "p",
        "queue": [f"t{number}" for number in range(tracks)],
        "metadata": {"queue": [1, [2, {"tracks": []}]]},
        "tracks": [
            {"id": f"t{number}", "metadata": {f'"[{{,\\{one}': [one] for one in range(values)}}
            for number in range(tracks)
        ],
        "error": None,
    }


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(("tracks", "values"), [(0, 0), (3, 2), (2_000, 17), (50_000, 0), (3, 5_000)])
def test_it_is_what_the_parser_makes_of_the_whole(tracks: int, values: int, indent: int | None) -> None:
    value, parser = record(tracks, values), Parser()
    assert read_long_json(json.dumps(value, indent=indent).encode(), parser, 50_000) == value
    assert parser.largest < 5 * PART_VALUES  # the names hold punctuation of their own


def test_a_part_that_cannot_be_cut_is_not_read() -> None:
    inner: list[Json] = [1] * 60_000
    values: tuple[Json, ...] = ([[]] * 60_000, {"a": {"b": inner}}, {"a": [inner]}, {str(n): n for n in range(60_000)})
    for value in values:
        parser = Parser()
        assert read_long_json(json.dumps(value).encode(), parser, 50_000) is None
        assert parser.largest == 0


def test_what_is_no_json_is_refused_wherever_it_is_cut() -> None:
    dice, good = random.Random(SEED), json.dumps({"a": [1] * 45_000 + [{"b": [2]}] * 9, "c": "d"}).encode()
    for number in range(40):
        at = dice.randrange(len(good))
        bad = good[:at] + (b",", b"]", b"}", b"[", b'"', b"{")[number % 6] + good[at:]
        for raw in (bad, good[:at], good.replace(b"],", b",],")):
            with contextlib.suppress(ValueError):
                from_json(raw)
                continue  # inside of a string
            try:
                value = read_long_json(raw, Parser(), 50_000)
            except ValueError:
                continue
            assert value is None, (at, raw[at - 5 : at + 5])

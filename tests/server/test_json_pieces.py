"""The pieces of a long object are together what a parser makes of the whole, and none is long."""

import contextlib
import json
import random

import pytest

from tests.support.examples import SEED
from tonearm.core.metadata import Json
from tonearm.server.json_pieces import MAX_PIECE_BYTES, PieceTooLong, pieces_of


def put_together(raw: bytes) -> Json:
    """The object, of pieces that are each read alone."""
    value: dict[str, Json] = {}
    for piece in pieces_of(bytearray(raw)):
        name, read = json.loads(piece.name), json.loads(piece.value)
        items = value.get(name)
        if piece.index is not None:
            assert isinstance(items, list)
            assert len(items) == piece.index
            items.append(read)
        else:
            value[name] = read
    return value


def record(tracks: int, values: int) -> Json:
    return {
        "id": "p",
        "queue": [f"t{number}" for number in range(tracks)],
        "metadata": {"queue": [1, [2, {"tracks": []}]]},
        "tracks": [
            {"id": f"t{number}", "metadata": {f'"[{{,\\{one}ä': [one] for one in range(values)}}
            for number in range(tracks)
        ],
        "numbers": [1, 2.5e3, -4, None, True, "", []],
        "error": None,
    }


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(("tracks", "values"), [(0, 0), (3, 2), (200, 17), (5_000, 0), (3, 20_000)])
def test_together_they_are_the_whole(tracks: int, values: int, indent: int | None) -> None:
    value = record(tracks, values)
    assert put_together(json.dumps(value, indent=indent, ensure_ascii=False).encode()) == value


def test_a_value_of_any_length_ends_where_it_ends() -> None:
    """Windows in which its end is looked for are cut anywhere."""
    for size in (0, 1, 65_520, *range(65_524, 65_540), 70_000, MAX_PIECE_BYTES - 2):
        for value in ("x" * size, int("1" + "2" * min(size, 4_000))):
            assert put_together(b'{"a":%s,"b":[%s]}' % ((json.dumps(value).encode(),) * 2)) == {
                "a": value,
                "b": [value],
            }


def test_of_a_field_that_is_there_twice_the_last_counts_and_spaces_are_none() -> None:
    assert put_together(b' {"a" : [1, 2] , "a":[ 3 ],"b":{} } ') == {"a": [3], "b": {}}
    assert put_together(b"\n{ }") == {}


def test_no_piece_is_long() -> None:
    longs: tuple[Json, ...] = ("x" * MAX_PIECE_BYTES, [[1] * MAX_PIECE_BYTES], {"a": [{}] * MAX_PIECE_BYTES})
    for long in longs:
        with pytest.raises(PieceTooLong):
            put_together(json.dumps({"a": long}).encode())


def test_what_is_no_json_is_refused_wherever_the_mistake_is() -> None:
    dice, good = random.Random(SEED), json.dumps({"a": [1] * 45 + [{"b": [2]}] * 9, "c": "d"}).encode()
    for number in range(100):
        at = dice.randrange(len(good))
        bad = good[:at] + (b",", b"]", b"}", b"[", b'"', b"{", b":")[number % 7] + good[at:]
        for raw in (bad, good[:at], good + b" 1", good.replace(b"],", b",],"), b"[" + good + b"]"):
            with contextlib.suppress(ValueError):
                assert put_together(raw) == json.loads(raw)  # inside of a string
                continue
            with pytest.raises(ValueError, match=r"."):
                put_together(raw)
    with pytest.raises(RecursionError):
        put_together(b'{"a":' + b"[" * 100_000)

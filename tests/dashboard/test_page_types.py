"""The types of what the page gets from a node are those of the models."""

from tools.page_types import WIRE_TYPES, page_types


def test_the_types_are_those_of_the_models() -> None:
    assert WIRE_TYPES.read_text(encoding="utf-8") == page_types(), "run python -m tools.page_types"

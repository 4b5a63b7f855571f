"""What holds for all tests."""

import gc
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

# The same examples in each run, so that a test fails by what was changed and not by chance. `--hypothesis-seed` and
# `--hypothesis-profile=default` look further.
settings.register_profile("the same each time", derandomize=True)
settings.load_profile("the same each time")

# What is collected stays to the end. To look through it for garbage again and again takes a quarter of the time that
# collecting needs, in each of the processes that run tests.
gc.disable()

# Whole nodes and processes, which need most of the time, much of it to wait. They come first, so that the quick ones
# are left to fill the gaps at the end.
_FIRST: Final = ("node", "e2e", "decoding/pool", "decoding/worker", "sandbox", "sources/resolver", "listen")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = Path(__file__).parent
    ranks = {folder / room: rank for rank, room in enumerate(_FIRST)}
    items.sort(key=lambda item: next((ranks[room] for room in item.path.parents if room in ranks), len(ranks)))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()

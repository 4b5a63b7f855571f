"""Which examples the tests try that draw them, and how many.

`make test` tries the same ones each time: a tree passes or it does not. `make fuzz` tries others, from a seed that it
prints, and with `MODELS=100` a hundred times as many for state machines against their models.
"""

import os
from typing import Final

SEED: Final = int(os.environ.get("FUZZ_SEED") or 1000)
_TIMES: Final = int(os.environ.get("FUZZ_MODELS") or 1)


def examples(count: int) -> int:
    """`count`, or as many times that as the run asks for."""
    return count * _TIMES

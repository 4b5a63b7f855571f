"""How many examples the tests try that hold a state machine against a model of it.

`make fuzz MODELS=100` asks for a hundred times as many as `make test`.
"""

import os
from typing import Final

_TIMES: Final = int(os.environ.get("FUZZ_MODELS") or 1)


def examples(count: int) -> int:
    """`count`, or as many times that as the run asks for."""
    return count * _TIMES

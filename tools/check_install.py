"""Fails, and says what to do, if the `tonearm` of this environment is a copy that does not follow the checkout.

`pip install .` makes such a copy, also with an extra, and silently replaces the link of `pip install -e .`.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

_SOURCES = Path(__file__).resolve().parents[1] / "src"


def main() -> int:
    found = find_spec("tonearm")
    place = Path(found.origin or "").resolve() if found is not None else None
    if place is not None and place.is_relative_to(_SOURCES):
        return 0
    told = "There is no tonearm in this environment" if place is None else f"{place.parent} is a copy of tonearm"
    remedy = f"{sys.executable} -m pip install --no-deps --no-build-isolation -e ."
    sys.stderr.write(f"{told}: what you edit in {_SOURCES} has no effect. Install it with -e:\n    {remedy}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())

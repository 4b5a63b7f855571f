"""The environment of the commands that tests run, and of this process."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process' environment without settings of a node or of a terminal, and `extra`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TONEARM_", "COLUMNS", "LINES"))}
    return {**kept, "PYTHONUNBUFFERED": "1", **(extra or {})}


def python_path(folder: Path) -> dict[str, str]:
    """The variable with which Python finds what is in `folder` before all else."""
    inherited = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *([inherited] if inherited else [])])}


@contextmanager
def variables(**values: str) -> Iterator[None]:
    """This process has these in its environment meanwhile, and what it starts."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value

"""Decoder processes, and templates of them, that are forked from one which has loaded them (`decoder_template`).

What comes of it is a child of this process, with the arguments, descriptors and stderr that it is given. A test of how
an interpreter is started starts one.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Final

import pytest

from tests.support.sibling_forks import SiblingTemplate
from tonearm.decoder.pool import starting
from tonearm.decoder.pool.starting import LIBRARY_SETTINGS, ChildProcess, start_interpreter
from tonearm.sandbox.report import minimal_environment

_INTERPRETER: Final = sys.executable
_STDERR: Final = 2


@cache
def _environment() -> dict[str, str]:
    return minimal_environment(os.environ)


@cache
def _template() -> SiblingTemplate:
    variables = {**_environment(), **LIBRARY_SETTINGS}
    return SiblingTemplate("decoder_template.py", variables)


def load() -> None:
    """Starts the process that the others are forked from, if that was not done yet."""
    _template()


def decoder_template_process_id() -> int | None:
    """The process that decoders are forked from, when there is one."""
    return _template().pid if _template.cache_info().currsize else None


def start_decoder(
    arguments: Sequence[object], descriptors: Sequence[int], stderr: int, *, is_held: bool = False
) -> ChildProcess:
    """As `python -m tonearm.worker` with these arguments and descriptors, in a session of its own. Where a
    system does not let a process fork children for another one, it is an interpreter indeed. `is_held`: it does nothing
    before it gets SIGCONT."""
    placed = {_STDERR: stderr, **{descriptor: descriptor for descriptor in descriptors}}
    fork = _template().start(["held" if is_held else "", *arguments], placed)
    return fork or start_alone(arguments, descriptors, stderr)


def start_alone(
    arguments: Sequence[object],
    descriptors: Sequence[int],
    stderr: int,
    interpreter: str | None = None,
    variables: Mapping[str, str] | None = None,
) -> ChildProcess:
    """The same without a fork, by this or another `interpreter`, with more `variables` in its environment."""
    return subprocess.Popen(
        [interpreter or sys.executable, "-m", "tonearm.worker", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=descriptors,
        start_new_session=True,
        env={**os.environ, **(variables or {}), **LIBRARY_SETTINGS},
    )


@contextmanager
def quick_starts(held: int = 0) -> Iterator[None]:
    """Whatever starts an interpreter for a decoder process, or for a template, gets a fork meanwhile. The one with the
    number `held`, counted from 1, does nothing before it gets SIGCONT."""
    load()
    numbers = count(1)

    def start(arguments: tuple[object, ...], descriptors: tuple[int, ...]) -> ChildProcess:
        """An interpreter after all when the test has another one, or another environment for it."""
        if (sys.executable, minimal_environment(os.environ)) != (_INTERPRETER, _environment()):
            return start_interpreter(arguments, descriptors)
        return start_decoder(arguments, descriptors, _STDERR, is_held=next(numbers) == held)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starting, "start_interpreter", start)
        yield

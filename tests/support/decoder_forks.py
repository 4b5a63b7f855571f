"""Decoder processes, and templates of them, that are forked from one which has loaded them (`decoder_template`).

What comes of it is a child of this process, with the arguments, descriptors and stderr that it is given. A test of how
an interpreter is started starts one.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from typing import Final

from tests.support.sibling_forks import SiblingTemplate
from tonearm.decoder.pool.starting import LIBRARY_SETTINGS, ChildProcess, start_interpreter
from tonearm.sandbox.report import minimal_environment

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


class QuickStarts:
    """Starts forks in the place of interpreters, for a decoder process or a template of them (`StartInterpreter`).

    The one with the number `held`, counted from 1, does nothing before it gets SIGCONT. `interpreter`: the path of a
    program that is started instead, as long as it is set.
    """

    def __init__(self, *, held: int = 0, interpreter: str | None = None) -> None:
        load()
        self._held = held
        self._numbers = count(1)
        self.interpreter = interpreter

    def __call__(self, arguments: tuple[object, ...], descriptors: tuple[int, ...]) -> ChildProcess:
        """An interpreter after all when the test has another environment for it."""
        if self.interpreter is not None or minimal_environment(os.environ) != _environment():
            return start_interpreter(arguments, descriptors, self.interpreter)
        return start_decoder(arguments, descriptors, _STDERR, is_held=next(self._numbers) == self._held)

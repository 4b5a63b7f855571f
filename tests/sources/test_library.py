"""A folder of very many files beside an event loop that has frames to send."""

import _thread
import gc
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.support.processes import longest_hold_s
from tonearm.core.library import LibrarySettings
from tonearm.sources.library import Library

# A quarter of what a folder may have, and a quarter of the time; all would be traced for ten seconds.
MANY: Final = 25_000


async def test_very_many_files_are_listed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest line of Python in the library's threads may have kept the interpreter's lock as long as it took: in
    time of the processor, for what other programs take does not count."""
    start, steps_s, of_thread = _thread.start_new_thread, [0.0], threading.local()

    def step(*_: object) -> Any:
        now_s = time.thread_time()
        steps_s.append(now_s - getattr(of_thread, "now_s", now_s))
        of_thread.now_s = time.thread_time()
        return step

    def start_traced(call: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        def traced() -> None:
            sys.settrace(step)
            call(*arguments)

        start(traced, ())

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:  # a busy disk takes minutes for so many files
        for number in range(MANY):
            os.mknod(f"{folder}/Track {number}.wav")
        library = Library(LibrarySettings((folder,)))
        monkeypatch.setattr(_thread, "start_new_thread", start_traced)
        gc.disable()  # the node looks at young objects only
        try:
            found = await library.listing("/0", "", 19_990, 1000)
        finally:
            gc.enable()
    assert (found.total, len(found.entries), found.entries[0].name) == (MANY, 1000, "Track 19990.wav")
    assert len(steps_s) > MANY
    assert max(steps_s) < longest_hold_s() / 2 * MANY / 100_000

"""A folder of very many files beside an event loop that has frames to send."""

import _thread
import gc
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import pytest

from tests.support.processes import longest_hold_s
from tonearm.core.library import LibrarySettings
from tonearm.sources.library import Library

MANY: Final = (
    25_000  # a quarter of what a folder may have, and a quarter of the time; all would be traced for ten seconds
)


class LongestStep:
    """How long the longest line of Python took in the threads that it traces: so long it may have kept the
    interpreter's lock. In time of the processor, for what other programs take does not count."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.lines = 0
        self._of_thread = threading.local()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> "LongestStep":
        before_s = getattr(self._of_thread, "now_s", None)
        if before_s is not None:
            self.seconds = max(self.seconds, time.thread_time() - before_s)
        self.lines += 1
        self._of_thread.now_s = time.thread_time()
        return self


@pytest.fixture
def folder_in_memory() -> Iterator[str]:
    """A disk of a busy machine takes minutes for so many files."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield folder


async def test_very_many_files_are_listed_in_steps(folder_in_memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MANY):
        os.mknod(f"{folder_in_memory}/Track {number}.wav")
    library, step = Library(LibrarySettings((folder_in_memory,))), LongestStep()
    start = _thread.start_new_thread

    def start_traced(call: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        def traced() -> None:
            sys.settrace(step)
            call(*arguments)

        start(traced, ())

    monkeypatch.setattr(_thread, "start_new_thread", start_traced)
    gc.disable()  # the node looks at young objects only
    try:
        found = await library.listing("/0", "", 19_990, 1000)
    finally:
        gc.enable()
    assert (found.total, len(found.entries), found.entries[0].name) == (MANY, 1000, "Track 19990.wav")
    assert step.lines > MANY
    assert step.seconds < longest_hold_s() / 2 * MANY / 100_000

"""What holds for all tests."""

import gc
import shutil
import signal
from itertools import chain, zip_longest
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.support.kept_audio import keep_in

pytest_plugins = ("tests.support.second_tries", "tests.support.missing_programs")

# The same examples in each run. No example has a limit of time: the machine may have much else to do.
settings.register_profile(
    "repeat",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
# Others in each run. A failure prints how to repeat it, and is repeated by itself in the next run of this tree.
settings.register_profile(
    "explore",
    settings.get_profile("repeat"),
    derandomize=False,
    database=DirectoryBasedExampleDatabase(Path(__file__).parents[1] / ".hypothesis" / "examples"),
)
settings.load_profile("repeat")

# What is collected stays to the end. To look through it for garbage again and again takes a quarter of the time that
# collecting needs, in each of the processes that run tests.
gc.disable()

# Whole nodes, which need most of the time, most of it to wait. They come first, and after each file of them one of the
# others, so that the cores have something to do meanwhile. Those of `node` look whether a descriptor is left over, and
# can only as long as there is no node of `e2e`.
_WAITING: Final = ("tests/node/", "tests/e2e/")
# Of the others those that start processes, too, so that quick ones are left to fill the gaps at the end.
_LONG: Final = (
    *("tests/decoder/pool/", "tests/worker/", "tests/sandbox/", "tests/sources/resolver/"),
    *("tests/bench/", "tests/bots/", "tests/client/", "tests/commands/", "tests/examples/", "tests/test_"),
)

_AUDIO_FOLDER: Final = pytest.StashKey[Path]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells each process that runs tests where all of them keep audio."""
    stash = node.config.stash
    if _AUDIO_FOLDER not in stash:
        stash[_AUDIO_FOLDER] = Path(mkdtemp("-audio-of-tests"))
    node.workerinput["audio_folder"] = str(stash[_AUDIO_FOLDER])


def pytest_configure(config: pytest.Config) -> None:
    folder = getattr(config, "workerinput", {}).get("audio_folder")
    if folder is not None:
        keep_in(Path(folder))
    # A shell's background job ignores interrupts, and so would the commands that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_AUDIO_FOLDER, None)
    if folder is not None:
        shutil.rmtree(folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    files = sorted({_file_of(item): None for item in items}, key=_rank)
    waiting = [file for file in files if file.startswith(_WAITING)]
    others = [file for file in files if not file.startswith(_WAITING)]
    places = {file: place for place, file in enumerate(chain.from_iterable(zip_longest(waiting, others)))}
    items.sort(key=lambda item: places[_file_of(item)])


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _rank(file: str) -> int:
    rooms = (*_WAITING, *_LONG)
    return next((rank for rank, room in enumerate(rooms) if file.startswith(room)), len(rooms))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()

"""What holds for all tests."""

import gc
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import pytest
from hypothesis import settings

from tests.support.kept_audio import keep_in

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


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_AUDIO_FOLDER, None)
    if folder is not None:
        shutil.rmtree(folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {f"tests/{room}/": rank for rank, room in enumerate(_FIRST)}
    items.sort(
        key=lambda item: next((rank for room, rank in ranks.items() if item.nodeid.startswith(room)), len(ranks))
    )


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()

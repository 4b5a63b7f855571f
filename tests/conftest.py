"""What holds for all tests."""

import gc

from hypothesis import settings

# The same examples in each run, so that a test fails by what was changed and not by chance. `--hypothesis-seed` and
# `--hypothesis-profile=default` look further.
settings.register_profile("the same each time", derandomize=True)
settings.load_profile("the same each time")

# What is collected stays to the end. To look through it for garbage again and again takes a quarter of the time that
# collecting needs, in each of the processes that run tests.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()

"""What holds for all tests."""

from hypothesis import settings

# The same examples in each run, so that a test fails by what was changed and not by chance. `--hypothesis-seed` and
# `--hypothesis-profile=default` look further.
settings.register_profile("the same each time", derandomize=True)
settings.load_profile("the same each time")

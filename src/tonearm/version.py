"""Which build this is. Both values change together, with a release."""

from typing import Final

VERSION: Final = "0.1.0"
BUILD_TIME_MS: Final = 1_795_219_200_000
"""When this version was made: milliseconds since 1970-01-01 UTC, constant for a build."""

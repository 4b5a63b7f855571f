"""tonearm, an audio player service. This module has only the version and build time."""

from typing import Final

VERSION: Final = "0.1.0"

# Set by hand with VERSION: a client that sees the same number talks to the same build, whenever the node was started.
BUILD_TIME_MS: Final = 1_795_219_200_000  # 2026-11-21T00:00:00Z

"""Numbers that the node and its decoder processes have to agree about."""

from typing import Final

DATA_CHUNK_BYTES: Final = 64 * 1024
# How far the decoder may render ahead of what was sent. Half of it costs a tenth more CPU a frame at 50 players, for
# more messages and more wake-ups; a change is heard as soon, because it is rendered anew from the next frame on.
GRANT_FRAMES: Final = 20
BODY_LIMIT_BYTES: Final = 16 * 1024 * 1024

# Shared memory in which the process writes down what it works on: 8 bytes for each piece of work that can go on at
# once, `session << 32 | source`, or 0. The first is the decoding turn, the others are openings.
CULPRIT_SLOTS: Final = 3
EXIT_MEMORY_LIMIT: Final = 77  # the status of a process that ended because its memory was used up

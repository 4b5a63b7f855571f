"""The audio format that leaves the node: every number is derived from the two constants below."""

from typing import Final

SAMPLE_RATE_HZ: Final = 48_000
FRAME_MS: Final = 20

CHANNELS: Final = 2
SAMPLE_BYTES: Final = 2  # signed 16-bit little-endian

SAMPLE_BLOCK_BYTES: Final = CHANNELS * SAMPLE_BYTES  # one sample of every channel
FRAME_SAMPLES: Final = SAMPLE_RATE_HZ * FRAME_MS // 1000
FRAME_BYTES: Final = FRAME_SAMPLES * SAMPLE_BLOCK_BYTES
FRAMES_PER_SECOND: Final = 1000 // FRAME_MS
FRAME_S: Final = FRAME_MS / 1000

SILENT_FRAME: Final = bytes(FRAME_BYTES)


def samples_of_ms(duration_ms: float) -> int:
    """How many samples of each channel `duration_ms` has, rounded down."""
    return int(duration_ms * SAMPLE_RATE_HZ) // 1000


def ms_of_samples(samples: int) -> int:
    """How many milliseconds `samples` samples of each channel take, rounded down."""
    return samples * 1000 // SAMPLE_RATE_HZ

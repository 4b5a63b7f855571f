"""Process-wide limits on what libav may take. The decoder process sets them once, when it starts."""

import ctypes
from pathlib import Path
from typing import Final

import av

MAX_ALLOCATION_BYTES: Final = 64 * 1024 * 1024


class LibavNotFoundError(Exception):
    """The libavutil that PyAV uses is not loaded under a name that we know."""


def limit_allocation_size(max_bytes: int = MAX_ALLOCATION_BYTES) -> None:
    """Make every single allocation of libav above `max_bytes` fail with ENOMEM, in the whole process.

    A header of a kilobyte can ask for gigabytes; no sound needs a block of this size.
    Raises LibavNotFoundError when the library cannot be reached: then decoding untrusted files is not safe.
    """
    libavutil = ctypes.CDLL(str(loaded_libavutil()))
    libavutil.av_max_alloc.argtypes = [ctypes.c_size_t]
    libavutil.av_max_alloc.restype = None
    libavutil.av_max_alloc(max_bytes)


def loaded_libavutil() -> Path:
    """The libavutil that PyAV uses. Raises LibavNotFoundError."""
    # The copy that is mapped into this process, whether it came with the wheel or with the system: a second copy
    # would have a limit of its own. The import of av above has loaded it.
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.rpartition(" ")[2])
        if path.name.startswith("libavutil"):
            return path
    raise LibavNotFoundError(f"PyAV {av.__version__} has not loaded a libavutil; install the av wheel for this system.")

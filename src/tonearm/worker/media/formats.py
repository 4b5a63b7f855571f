"""The allowed containers and codecs, by libav's names, and the limits for libav. All others are rejected."""

import ctypes
import threading
from functools import cache
from pathlib import Path
from typing import ClassVar, Final, Self

import av

from tonearm.worker.reading.reader import MediaReader

# Demuxers, but none that opens other files or addresses (hls, concat, sdp, dash, image2 …).
CONTAINERS: Final = (
    "aac",
    "ac3",
    "aiff",
    "asf",
    "au",
    "avi",
    "caf",
    "eac3",
    "flac",
    "flv",
    "matroska",
    "mov",
    "mp3",
    "mpeg",
    "mpegts",
    "ogg",
    "w64",
    "wav",
    "webm",
    "wv",
)

CODECS: Final = frozenset(
    {
        *("mp3", "mp3float", "mp2", "mp2float", "mp1", "mp1float"),
        *("aac", "aac_latm", "alac", "flac", "vorbis", "opus", "wavpack"),
        *("ac3", "eac3", "wmav1", "wmav2"),
        *("pcm_u8", "pcm_s8", "pcm_s8_planar", "pcm_alaw", "pcm_mulaw"),
        *("pcm_s16le", "pcm_s16be", "pcm_s16le_planar", "pcm_s16be_planar", "pcm_u16le", "pcm_u16be"),
        *("pcm_s24le", "pcm_s24be", "pcm_s24le_planar", "pcm_u24le", "pcm_u24be"),
        *("pcm_s32le", "pcm_s32be", "pcm_s32le_planar", "pcm_u32le", "pcm_u32be"),
        *("pcm_s64le", "pcm_s64be", "pcm_f32le", "pcm_f32be", "pcm_f64le", "pcm_f64be"),
        *("adpcm_ms", "adpcm_ima_wav", "adpcm_ima_qt", "gsm_ms"),
    }
)

_ENCODERS: Final = frozenset({"libopus", "libmp3lame"})

MIN_SAMPLE_RATE_HZ: Final = 4_000
MAX_SAMPLE_RATE_HZ: Final = 384_000
MAX_CHANNELS: Final = 8
MAX_LENGTH_S: Final = 366 * 24 * 3600  # a longer length counts as an error

# Demuxers without checksums: random bytes can pass for a few packets of audio.
UNFRAMED_CONTAINERS: Final = frozenset({"mp3", "aac", "ac3", "eac3"})

_MAX_ALLOCATION_BYTES: Final = 64 * 1024 * 1024
# libav's index of an MP4 takes 24 bytes in one block for each frame, and the file has 4 bytes for it. For 60 hours of
# AAC at 48 kHz the index takes 243 MB.
_ALLOCATED_FOR_READ: Final = 8
_MOST_FOR_INDEX_BYTES: Final = 256 * 1024 * 1024


def missing_codecs() -> list[str]:
    """The names of codecs that this libav lacks: decoders, and the encoders for listeners."""
    return sorted((CODECS | _ENCODERS) - av.codecs_available)


def libav_version() -> str:
    return str(av.ffmpeg_version_info)


def probe_name(container_name: str) -> str:
    """The container's name for tracks, from libav's name (a comma-separated list for some)."""
    names = container_name.split(",")
    if "mp4" in names:
        return "mp4"
    if "matroska" in names:
        return "matroska/webm"
    return names[0]


def limit_allocation_size() -> None:
    """Makes every allocation of libav above 64 MiB fail with ENOMEM, in the whole process. Call it once, at the start.

    A header of a kilobyte can request gigabytes; only the index of a very long file needs a block of this size.
    Raises RuntimeError when the library is not found: decoding untrusted files is not safe then.
    """
    _limit_allocations(_MAX_ALLOCATION_BYTES)


def _limit_allocations(max_bytes: int) -> None:
    library = libavutil()
    library.av_max_alloc.argtypes = [ctypes.c_size_t]
    library.av_max_alloc.restype = None
    library.av_max_alloc(max_bytes)


class EarningReader:
    """A reader of a file that is being opened. The limit of libav's allocations grows with the bytes read, so a small
    file still cannot allocate much. The end of the `with` block resets the limit.

    The limit belongs to the process: other files that are opened meanwhile have the same limit.
    """

    _lock: ClassVar = threading.Lock()
    _earned: ClassVar[dict[int, int]] = {}  # by reader, where above the general limit

    def __init__(self, reader: MediaReader) -> None:
        self._reader = reader
        self._read_bytes = 0
        self._is_opening = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._is_opening = False
        with self._lock:
            if self._earned.pop(id(self), None) is not None:
                _limit_allocations(max(self._earned.values(), default=_MAX_ALLOCATION_BYTES))

    def read(self, n: int) -> bytes:
        data = self._reader.read(n)
        self._read_bytes += len(data)
        earned = min(self._read_bytes * _ALLOCATED_FOR_READ, _MOST_FOR_INDEX_BYTES)
        if self._is_opening and earned > _MAX_ALLOCATION_BYTES:
            with self._lock:
                self._earned[id(self)] = earned
                _limit_allocations(max(self._earned.values()))
        return data

    def seek(self, offset: int) -> int:
        return self._reader.seek(offset)

    def seekable(self) -> bool:
        return self._reader.seekable()


@cache
def libavutil() -> ctypes.CDLL:
    """The libavutil that PyAV uses, looked up once: later the process can open no path. Raises RuntimeError."""
    # The copy that `import av` has mapped into this process, from the wheel or the system. Another copy would have its
    # own limit.
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = Path(line.rpartition(" ")[2])
        if path.name.startswith("libavutil"):
            return ctypes.CDLL(str(path))
    raise RuntimeError(f"PyAV {av.__version__} has not loaded a libavutil; install the av wheel for this system.")

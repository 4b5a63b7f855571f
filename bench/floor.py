"""The floor: what the ffmpeg program needs to decode and resample a file as fast as it can."""

import resource
import subprocess
from pathlib import Path
from typing import Final

_SOUND_S: Final = 600  # over so much of it the program's start is spread


def floor_us_a_frame(path: Path, length_s: float) -> float:
    """CPU µs for 20 ms of `path`, with ffmpeg's own resampler as it comes."""
    rounds = max(1, round(_SOUND_S / length_s))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    reading = ["-stream_loop", str(rounds - 1), "-i", str(path), "-map", "0:a"]
    writing = ["-f", "s16le", "-ar", "48000", "-ac", "2", "-y", "/dev/null"]
    subprocess.run(["ffmpeg", "-v", "error", "-nostdin", *reading, *writing], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return cpu_s * 1e6 / (rounds * length_s * 50)

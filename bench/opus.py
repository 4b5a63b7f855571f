"""Measures libopus alone: the cost of encoding. Also decodes packets, to check what a listener hears."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, TypeAlias

import av
import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import FRAME_BYTES, Output
from tonearm.worker.packets.opus_encoder import OpusEncoder

Samples: TypeAlias = NDArray[np.float64]

_SOUND_S: Final = 30


def decoded(path: Path) -> bytes:
    """The first _SOUND_S seconds of a file, s16le stereo at 48 kHz."""
    reading = ["-i", str(path), "-t", str(_SOUND_S), "-map", "0:a"]
    writing = ["-f", "s16le", "-ar", "48000", "-ac", "2", "-"]
    arguments = ["-v", "error", "-nostdin", *reading, *writing]
    return subprocess.run(["ffmpeg", *arguments], check=True, capture_output=True).stdout


def encoding_us_a_frame(path: Path, complexity: int) -> float:
    """CPU µs of the calling thread for a frame of `path`, encoded in a loop without a pause at 128 kbit/s."""
    pcm = decoded(path)
    frames = [pcm[at : at + FRAME_BYTES] for at in range(0, len(pcm) - FRAME_BYTES, FRAME_BYTES)]
    encoder = OpusEncoder(Output("opus", complexity=complexity))
    begun = time.thread_time()
    for frame in frames:
        encoder.encode(frame)
    return (time.thread_time() - begun) * 1e6 / len(frames)


async def paced_us_a_frame(path: Path, complexity: int, encoders: int, seconds: float) -> float:
    """The same of a process of its own in which so many encoders work at the pace of players: see `paced_opus`."""
    arguments = [sys.executable, "-m", "bench.paced_opus", str(path), str(complexity), str(encoders), str(seconds)]
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    answer, _ = await process.communicate()
    return float(answer)


class OpusDecoder:
    """Decodes the packets of one listener."""

    def __init__(self) -> None:
        codec = av.CodecContext.create("libopus", "r")
        assert isinstance(codec, av.AudioCodecContext)
        codec.sample_rate = 48_000
        codec.layout = "stereo"
        self._codec = codec

    def decoded(self, packet: bytes) -> Samples:
        """960 by 2, in units of 16 bits."""
        (frame,) = self._codec.decode(av.Packet(packet))
        return np.asarray(frame.to_ndarray().reshape(-1, 2), dtype=np.float64)

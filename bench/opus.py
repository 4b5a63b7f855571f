"""libopus by itself: what encoding alone costs, and what is heard of packets."""

import subprocess
import time
from pathlib import Path
from typing import Final, TypeAlias

import av
import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import FRAME_BYTES
from tonearm.core.outputs import Output
from tonearm.decoding.worker.packets.opus_encoder import OpusEncoder

Samples: TypeAlias = NDArray[np.float64]

_SOUND_S: Final = 30


def encoding_us_a_frame(path: Path, complexity: int) -> float:
    """CPU µs of the calling thread for a frame of `path`, encoded in a loop without a pause at 128 kbit/s."""
    reading = ["-i", str(path), "-t", str(_SOUND_S), "-map", "0:a"]
    writing = ["-f", "s16le", "-ar", "48000", "-ac", "2", "-"]
    pcm = subprocess.run(["ffmpeg", "-v", "error", "-nostdin", *reading, *writing], check=True, capture_output=True)
    frames = [pcm.stdout[at : at + FRAME_BYTES] for at in range(0, len(pcm.stdout) - FRAME_BYTES, FRAME_BYTES)]
    encoder = OpusEncoder(Output("opus", complexity=complexity))
    begun = time.thread_time()
    for frame in frames:
        encoder.encode(frame)
    return (time.thread_time() - begun) * 1e6 / len(frames)


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

"""Opus packets made by PyAV, where libopus cannot be called directly. It takes half as long again, and has no state to
save.

Instead of a state the last frames are kept. A new encoder that has heard these goes on nearly as the old one would.
"""

from collections import deque
from typing import Final

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame

from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.core.outputs import Output
from tonearm.decoding.worker.opus import EncoderState

_KEPT_FRAMES: Final = 3


class PyavOpusEncoder:
    """As `OpusEncoder`. Without prediction it cannot encode. Raises `av.FFmpegError` when FFmpeg has no libopus."""

    def __init__(self, settings: Output) -> None:
        self.settings = settings
        self._last: deque[bytes] = deque(maxlen=_KEPT_FRAMES)
        self._codec = self._opened()

    def reset(self) -> None:
        self._last.clear()
        self._codec = self._opened()

    def encode(self, pcm: bytes | memoryview, *, without_prediction: bool = False) -> bytes:
        if len(pcm) != FRAME_BYTES:
            raise ValueError(f"a packet is made of {FRAME_BYTES} bytes, not {len(pcm)}")
        self._last.append(bytes(pcm))
        frame = AudioFrame.from_ndarray(np.frombuffer(pcm, "<i2").reshape(1, -1), format="s16", layout="stereo")
        frame.sample_rate = SAMPLE_RATE_HZ
        frame.pts = self._pts
        self._pts += FRAME_SAMPLES
        return b"".join(bytes(packet) for packet in self._codec.encode(frame))

    def save(self) -> EncoderState:
        return EncoderState(b"".join(self._last))

    def restore(self, state: EncoderState) -> None:
        self.reset()
        for start in range(0, len(state.memory), FRAME_BYTES):
            self.encode(state.memory[start : start + FRAME_BYTES])

    def _opened(self) -> AudioCodecContext:
        codec = av.CodecContext.create("libopus", "w")
        assert isinstance(codec, AudioCodecContext)
        settings = self.settings
        codec.sample_rate = SAMPLE_RATE_HZ
        codec.layout = "stereo"
        codec.format = "s16"
        codec.bit_rate = settings.bitrate_bps
        codec.options = {
            "compression_level": str(settings.complexity),
            "vbr": "constrained" if settings.is_variable else "off",
            "fec": str(int(settings.has_fec)),
            "frame_duration": "20",
        }
        codec.open()
        self._pts = 0
        return codec

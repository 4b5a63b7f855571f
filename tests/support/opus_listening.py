"""What decoders make of Opus packets, and how near that is to what was encoded."""

from collections.abc import Sequence

import av
import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import FRAME_SAMPLES


def decoded(packets: Sequence[bytes], decoder: str = "libopus") -> NDArray[np.float64]:
    """What a decoder, `libopus` or FFmpeg's own `opus`, makes of packets: n by 2 in 16-bit units."""
    codec = av.CodecContext.create(decoder, "r")
    assert isinstance(codec, av.AudioCodecContext)
    codec.sample_rate = 48_000
    codec.layout = "stereo"
    blocks = []
    for data in packets:
        for frame in codec.decode(av.Packet(data)):
            samples = frame.to_ndarray()
            if frame.format.is_planar:
                samples = samples.T
            samples = samples.reshape(-1, 2).astype(np.float64)
            blocks.append(samples * 32768 if frame.format.name.startswith("flt") else samples)
    return np.concatenate(blocks)


def segmental_snr_db(wanted: NDArray[np.float64], got: NDArray[np.float64]) -> float:
    """The mean of the signal-to-noise ratios of frames, those left out in which there is next to no sound."""
    ratios = []
    count = min(len(wanted), len(got)) // FRAME_SAMPLES
    for start in range(0, count * FRAME_SAMPLES, FRAME_SAMPLES):
        signal = wanted[start : start + FRAME_SAMPLES]
        noise = signal - got[start : start + FRAME_SAMPLES]
        if np.mean(signal**2) > 100:
            ratios.append(10 * np.log10(np.mean(signal**2) / (np.mean(noise**2) + 1e-3)))
    assert ratios, "nothing but silence"
    return float(np.mean(ratios))

"""Loudness and true peak of PCM, measured by FFmpeg's ebur128 filter: another program's judgement."""

from fractions import Fraction

import av
import numpy as np
from av.filter import Graph


def measured_by_ffmpeg(pcm: bytes) -> tuple[float, float]:
    """Integrated loudness in LUFS and true peak in dBTP of s16le stereo at 48 kHz."""
    graph = Graph()
    source = graph.add_abuffer(sample_rate=48_000, format="s16", layout="stereo", time_base=Fraction(1, 48_000))
    meter = graph.add("ebur128", "peak=true:metadata=1")
    sink = graph.add("abuffersink")
    graph.link_nodes(source, meter, sink).configure()
    samples = np.frombuffer(pcm, dtype="<i2").reshape(1, -1)
    frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="stereo")
    frame.sample_rate, frame.pts = 48_000, 0
    graph.push(frame)
    graph.push(None)
    lufs, peak = -np.inf, 0.0
    while True:
        try:
            metadata = graph.pull().metadata
        except (av.EOFError, av.BlockingIOError):
            return lufs, float(20 * np.log10(max(peak, 1e-9)))
        lufs = float(metadata.get("lavfi.r128.I", lufs))
        peaks = [float(metadata.get(f"lavfi.r128.true_peaks_ch{channel}", 0.0)) for channel in (0, 1)]
        peak = max(peak, *peaks)

"""PCM made and looked at by tests: s16le stereo at 48 kHz."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tonearm.core.frame import CHANNELS, FRAME_BYTES, FRAME_SAMPLES, SAMPLE_RATE_HZ


def tone(frequency_hz: float, *, frames: int, peak: float) -> bytes:
    """A sine that is the same in both channels."""
    turns = 2.0 * np.pi * frequency_hz / SAMPLE_RATE_HZ * np.arange(frames * FRAME_SAMPLES)
    mono = np.rint(peak * np.sin(turns)).astype("<i2")
    return np.repeat(mono, CHANNELS).tobytes()


def noise(*, frames: int, peak: int, seed: int = 1) -> bytes:
    """White noise, different in the two channels."""
    random = np.random.default_rng(seed)
    return random.integers(-peak, peak, (frames * FRAME_SAMPLES, CHANNELS), endpoint=True).astype("<i2").tobytes()


def channels(pcm: bytes) -> NDArray[np.int64]:
    """The samples, n by 2, wide enough to subtract them."""
    return np.frombuffer(pcm, dtype="<i2").reshape(-1, CHANNELS).astype(np.int64)


def sounds_the_same(pcm: bytes, other: bytes) -> bool:
    """Equally long, and no sample differs by more than rounding: sums in float32 depend on how they are split."""
    return len(pcm) == len(other) and bool(np.abs(channels(pcm) - channels(other)).max(initial=0) <= 1)


def largest_step(pcm: bytes) -> int:
    """The largest jump from a sample to the next in a channel: a click stands out here."""
    return int(np.abs(np.diff(channels(pcm), axis=0)).max())


def bend(pcm: bytes) -> int:
    """The largest second difference: a click in a tone stands out in it."""
    return int(np.abs(np.diff(channels(pcm), 2, axis=0)).max())


def true_peak_db(sound: NDArray[np.floating[Any]]) -> float:
    """The highest point of the curve through the samples (along the last axis, 1.0 is full scale), at 16 times the
    rate, but for the ends, which ring."""
    samples = sound.shape[-1]
    spectrum = np.fft.rfft(sound.astype(np.float64))
    wide = np.zeros((*sound.shape[:-1], samples * 8 + 1), dtype=np.complex128)
    wide[..., : spectrum.shape[-1]] = spectrum
    curve = np.fft.irfft(wide, samples * 16) * 16
    return float(20 * np.log10(np.abs(curve[..., 16 * 2_000 : -16 * 2_000]).max()))


def level_of(pcm: bytes, frequency_hz: float) -> float:
    """The peak of the sine of `frequency_hz` in the left channel. Exact when `pcm` holds whole periods of it."""
    left = channels(pcm)[:, 0]
    turns = 2.0 * np.pi * frequency_hz / SAMPLE_RATE_HZ * np.arange(len(left))
    return float(2.0 * np.abs(np.mean(left * np.exp(-1j * turns))))


def without_cuts(pcm: bytes, parts: list[bytes]) -> bytes:
    """What is left of `pcm` behind `parts`, sounds of whole frames that were cut to one after the other.

    In the first frame of each the one before still fades out; that may be a frame of its own, when the next sound came
    later. Raises AssertionError when anything else differs.
    """
    for number, part in enumerate(parts):
        rest = part if number == 0 else part[FRAME_BYTES:]
        skipped = 0 if number == 0 else FRAME_BYTES
        if not pcm[skipped:].startswith(rest) and number:
            skipped += FRAME_BYTES
            if not pcm[skipped:].startswith(rest):
                rest = rest[:-FRAME_BYTES]  # whoever counted its frames took the one of the tail for one of them
        assert pcm[skipped:].startswith(rest), f"sound {number} is not there"
        pcm = pcm[skipped + len(rest) :]
    return pcm

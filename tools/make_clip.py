"""Makes the clip that comes with tonearm: plucked chords over soft bass notes, all of it synthesised here.

    python tools/make_clip.py src/tonearm/clips/welcome.opus

The same script makes the same music each time.
"""

import sys

import av
import numpy as np
import numpy.typing as npt

RATE_HZ = 48_000
BEAT_S = 0.5
BITRATE = 64_000
PEAK = 0.7

# One bar each, as MIDI notes: the bass, then the notes that are plucked over it.
BARS = (
    (45, (57, 60, 64, 69, 64, 60, 67, 64)),  # A minor 7
    (41, (57, 60, 65, 69, 65, 60, 64, 60)),  # F major 7
    (48, (55, 60, 64, 67, 72, 67, 64, 60)),  # C major
    (43, (55, 59, 62, 67, 62, 59, 69, 67)),  # G with a 9
    (45, (57, 60, 64, 72, 69, 64, 60, 64)),
    (41, (53, 57, 60, 65, 69, 72, 69, 65)),
    (43, (55, 59, 62, 67, 71, 67, 62, 59)),
    (48, (60, 64, 67, 72, 76, 72, 67, 64)),
    (41, (57, 60, 65, 69, 65, 60, 57, 60)),
    (43, (55, 59, 62, 67, 62, 59, 62, 59)),
    (48, (60, 64, 67, 72, 67, 76, 72, 84)),
)
NOTES_A_BAR = 8
TAIL_S = 3.0

Samples = npt.NDArray[np.float64]


def frequency_hz(note: int) -> float:
    return float(440.0 * 2 ** ((note - 69) / 12))


def plucked(note: int, length_s: float) -> Samples:
    """A few decaying partials, the upper ones shorter, after a soft attack."""
    time_s = np.arange(int(length_s * RATE_HZ)) / RATE_HZ
    sound = np.zeros_like(time_s)
    for partial, weight in ((1, 1.0), (2, 0.42), (3, 0.18), (4, 0.07), (6, 0.03)):
        # A string's partials are a little sharp.
        hz = frequency_hz(note) * partial * (1 + 0.0002 * partial**2)
        sound += weight * np.sin(2 * np.pi * hz * time_s) * np.exp(-time_s * (1.6 + 0.9 * partial))
    return sound * np.minimum(1, time_s / 0.006)


def hummed(note: int, length_s: float) -> Samples:
    """A soft bass with slow edges."""
    time_s = np.arange(int(length_s * RATE_HZ)) / RATE_HZ
    edges = np.minimum(1, time_s / 0.08) * np.minimum(1, (length_s - time_s) / 0.5)
    phase = 2 * np.pi * frequency_hz(note) * time_s
    sound: Samples = (np.sin(phase) + 0.25 * np.sin(2 * phase)) * edges
    return sound


def add(music: Samples, sound: Samples, at_s: float, gain: float, pan: float) -> None:
    """`pan` from -1 (left) to 1 (right), at constant power."""
    begin = int(at_s * RATE_HZ)
    angle = (pan + 1) * np.pi / 4
    part = music[:, begin : begin + len(sound)]
    part += np.array([[np.cos(angle)], [np.sin(angle)]]) * gain * sound[: part.shape[1]]


def compose() -> Samples:
    bar_s = NOTES_A_BAR * BEAT_S / 2
    length_s = len(BARS) * bar_s + TAIL_S
    music = np.zeros((2, int(length_s * RATE_HZ)))
    for index, (bass, notes) in enumerate(BARS):
        begin_s = index * bar_s
        add(music, hummed(bass, bar_s + 0.4), begin_s, 0.5, 0.0)
        for step, note in enumerate(notes):
            at_s = begin_s + step * BEAT_S / 2
            add(music, plucked(note, 2.5), at_s, 0.6 if step % 4 == 0 else 0.45, 0.5 * np.sin(index + step * 0.8))
    # Two quiet echoes, each to the other side, give it a room.
    for delay_s, gain in ((0.375, 0.22), (0.75, 0.1)):
        delay = int(delay_s * RATE_HZ)
        music[:, delay:] += gain * music[::-1, :-delay].copy()
    fade = int(TAIL_S * RATE_HZ)
    music[:, -fade:] *= np.linspace(1, 0, fade) ** 2
    return np.asarray(music * (PEAK / np.abs(music).max()))


def write(path: str, music: Samples) -> None:
    pcm = np.ascontiguousarray((music.T * 32767).astype("<i2").reshape(1, -1))
    # bitexact: no random serial number and no encoder's version in the file
    with av.open(path, "w", format="ogg", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libopus", rate=RATE_HZ, layout="stereo")
        stream.bit_rate = BITRATE
        stream.metadata.update({"title": "Welcome", "artist": "tonearm"})
        frame = av.AudioFrame.from_ndarray(pcm, format="s16", layout="stereo")
        frame.sample_rate = RATE_HZ
        resampler = av.AudioResampler(format="s16", layout="stereo", rate=RATE_HZ, frame_size=960)
        for part in (*resampler.resample(frame), *resampler.resample(None)):
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))


if __name__ == "__main__":
    write(sys.argv[1], compose())

"""Examines the recordings of a sound check: gaps, clicks, silence, order, and the same sound in all formats."""

import io
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from tests.support.opus_listening import decoded as decoded_opus

from tonearm.core.frame import FRAME_SAMPLES, OPUS_LOOKAHEAD_SAMPLES, SAMPLE_RATE_HZ
from tonearm.protocol.framing import FrameFlag
from tonearm.worker.filters.blocks import FULL_SCALE
from tools.soundcheck.programme import Mark
from tools.soundcheck.recording import HeardEvent, HeardFrame, Recording

BURST_S = 2.0
"""How much of what was before an Ogg or MP3 stream begins with, silence where there was nothing."""

LOW_RATE_HZ = 12_000
PIECE = LOW_RATE_HZ * 4 // 10
"""What is looked for in a stream at a time: 0.4 s."""

Samples = NDArray[np.float64]
"""n by 2, full scale is 1."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to look at: what was examined, what was found, and whether it is wrong."""

    subject: str
    text: str
    wrong: bool


def sound_of(frames: list[HeardFrame]) -> Samples:
    """PCM frames as samples."""
    whole = b"".join(frame.payload for frame in frames)
    return np.frombuffer(whole, "<i2").reshape(-1, 2) / FULL_SCALE


def decoded(data: bytes, form: str | None = None) -> Samples:
    """A stream's or file's sound at 48 kHz stereo, as FFmpeg decodes it."""
    blocks = []
    resampler = av.AudioResampler("flt", "stereo", SAMPLE_RATE_HZ)
    with av.open(io.BytesIO(data), "r", format=form) as container:
        try:
            for frame in container.decode(audio=0):
                blocks += [piece.to_ndarray().reshape(-1, 2) for piece in resampler.resample(frame)]
        except av.error.InvalidDataError:
            pass  # the stream was cut in the middle of a page or frame
    return np.concatenate(blocks).astype(np.float64)


def decoded_packets(frames: list[HeardFrame]) -> Samples:
    """Opus packets as samples; packets that only prime the decoder are decoded and their sound is dropped."""
    sound = decoded_opus([frame.payload for frame in frames]).reshape(-1, FRAME_SAMPLES, 2) / FULL_SCALE
    is_heard = [not frame.flags & FrameFlag.SILENCE for frame in frames]
    return sound[is_heard].reshape(-1, 2)


def second_differences(sound: Samples) -> NDArray[np.float64]:
    """The larger channel's |x[n-1] - 2 x[n] + x[n+1]|: what a click has much of, and music little."""
    jumps: NDArray[np.float64] = np.abs(np.diff(sound, 2, axis=0)).max(axis=1, initial=0.0)
    return jumps


def flowing(events: list[HeardEvent]) -> list[tuple[float, float]]:
    """The spans of time in which frames have to come: the player plays and is not paused."""
    spans, since = [], None
    for event in events:
        if event.fields["op"] in ("PlayerUpdate", "PlayerState"):
            flows = event.fields["state"] == "playing" and not event.fields["paused"]
            if flows and since is None:
                since = event.at_s
            elif not flows and since is not None:
                spans.append((since, event.at_s))
                since = None
    return spans


def part_at(parts: list[tuple[float, str]], at_s: float) -> str:
    index = bisect_right([begin for begin, _ in parts], at_s) - 1
    return parts[max(index, 0)][1]


def gaps(
    frames: list[HeardFrame], events: list[HeardEvent], parts: list[tuple[float, str]], most_ms: float
) -> list[Finding]:
    """Frames that are missing by number, and times without one while the player played."""
    found = []
    missing = [(a.number, b.number) for a, b in pairwise(frames) if b.number - a.number not in (0, 1)]
    found.append(
        Finding("numbers", f"{len(frames)} frames, missing or doubled: {missing[:5] or 'none'}", bool(missing))
    )
    late: dict[str, list[float]] = {}
    for begin_s, end_s in flowing(events):
        times = [frame.at_s for frame in frames if begin_s + 0.05 < frame.at_s < end_s]
        for a, b in pairwise(times):
            late.setdefault(part_at(parts, a), []).append((b - a) * 1000)
    for part, waits in late.items():
        over = [wait for wait in waits if wait > most_ms]
        text = f"{part}: longest time between frames {max(waits):.0f} ms, over {most_ms:g} ms: {len(over)}"
        found.append(Finding("evenness", text, bool(over)))
    return found


def clicks(
    frames: list[HeardFrame], marks: list[Mark], clean_most: float, parts: list[tuple[float, str]], loud_parts: set[str]
) -> list[Finding]:
    """Where the sound jumps: against the clips themselves, and around each change against what follows it.

    `clean_most` is the largest second difference of the clips; parts that make the sound louder or other on purpose
    are compared with what comes right after each change only.
    """
    sound = sound_of(frames)
    jumps = second_differences(sound)
    found = []
    begins = [part_at(parts, frame.at_s) for frame in frames]
    for part in dict.fromkeys(begins):
        first, last = begins.index(part), len(begins) - begins[::-1].index(part)
        most = float(jumps[first * FRAME_SAMPLES : last * FRAME_SAMPLES].max(initial=0.0))
        wrong = part not in loud_parts and most > clean_most * 1.05
        found.append(
            Finding("clicks", f"{part}: largest second difference {most:.4f}, of the clips {clean_most:.4f}", wrong)
        )
    times = np.array([frame.at_s for frame in frames])
    changes = [
        (mark.name, int(np.searchsorted(times, mark.at_s))) for mark in marks if mark.name.startswith("PATCH /filters")
    ]
    # A track's own first sample is left as it is, however loud it begins.
    cuts = [i for i, frame in enumerate(frames) if frame.flags & (FrameFlag.DISCONTINUITY | FrameFlag.TRACK_STARTS)]
    changes += [("a cut", i) for i in cuts if frames[i].position_us >= 40_000]
    for name, index in changes:
        near = jumps[max(0, index - 1) * FRAME_SAMPLES : (index + 5) * FRAME_SAMPLES]
        after = jumps[(index + 5) * FRAME_SAMPLES : (index + 35) * FRAME_SAMPLES]
        before = jumps[max(0, index - 31) * FRAME_SAMPLES : max(0, index - 1) * FRAME_SAMPLES]
        usual = max(float(after.max(initial=0)), float(before.max(initial=0)))
        if len(near) and float(near.max()) > 1.5 * usual + 0.002:
            at = part_at(parts, times[min(index, len(times) - 1)])
            offset_ms = (int(np.argmax(near)) / FRAME_SAMPLES - min(index, 1)) * 20
            if name == "a cut":
                name += f" (flags {frames[index].flags}) at {frames[index].position_us / 1e6:.2f} s of the track"
            text = f"{at}: {name}, {offset_ms:+.1f} ms from it: {near.max():.4f} where {usual:.4f} is usual"
            found.append(Finding("clicks", text, False))
    return found


def silence(frames: list[HeardFrame], parts: list[tuple[float, str]], most_frames: int) -> list[Finding]:
    """Runs of frames without any sound; the clips have none in their middle."""
    found, run = [], 0
    for frame in [*frames, None]:
        if frame is not None and not any(frame.payload):
            run += 1
            continue
        if run > most_frames:
            at = part_at(parts, (frame or frames[-1]).at_s)
            found.append(Finding("silence", f"{at}: {run} frames without sound", True))
        run = 0
    return found or [Finding("silence", f"no run of more than {most_frames} silent frames", False)]


def order(events: list[HeardEvent]) -> list[Finding]:
    """Sequence numbers without a gap, and exactly one end for each start of a track before the next start."""
    numbers = [event.fields["seq"] for event in events if event.fields["op"] != "PlayerState"]
    whole = numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    found = [
        Finding("order", f"{len(numbers)} events, their numbers {'without' if whole else 'WITH'} a gap", not whole)
    ]
    playing: Any = None
    wrong = []
    for event in events:
        op, track = event.fields["op"], event.fields.get("trackId")
        if op == "TrackStart":
            if playing is not None:
                wrong.append(f"TrackStart number {event.fields['seq']} before the end of the track before")
            playing = track
        elif op == "TrackEnd":
            if playing is not None and track != playing:
                wrong.append(f"TrackEnd number {event.fields['seq']} is of another track")
            playing = None
    return [*found, Finding("order", "; ".join(wrong) or "each start has its end", bool(wrong))]


def same_sound(pcm: list[HeardFrame], opus: list[HeardFrame], parts: list[tuple[float, str]]) -> list[Finding]:
    """The Opus listener against the PCM listener, frame by frame of the same number: signal to noise for each part."""
    heard = [frame for frame in opus if not frame.flags & FrameFlag.SILENCE]
    sound = decoded_packets(opus)[OPUS_LOOKAHEAD_SAMPLES:]
    reference = {frame.number: frame for frame in pcm}
    ratios: dict[str, list[float]] = {}
    for i, frame in enumerate(heard[:-1]):
        other = reference.get(frame.number)
        if other is None:
            continue
        wanted = sound_of([other])
        noise = wanted - sound[i * FRAME_SAMPLES : (i + 1) * FRAME_SAMPLES]
        if np.mean(wanted**2) > 1e-6:
            ratios.setdefault(part_at(parts, other.at_s), []).append(
                float(10 * np.log10(np.mean(wanted**2) / (np.mean(noise**2) + 1e-12)))
            )
    missing = len({frame.number for frame in pcm} - {frame.number for frame in opus})
    found = [Finding("opus", f"{len(heard)} packets; frames that PCM has and Opus has not: {missing}", missing > 5)]
    for part, values in ratios.items():
        median, low = float(np.median(values)), float(np.percentile(values, 1))
        found.append(
            Finding(
                "opus",
                f"{part}: signal to noise {median:.1f} dB in the middle, lowest hundredth {low:.1f} dB",
                median < 8,
            )
        )
    return found


def carried(
    name: str, stream: Recording, form: str, pcm: list[HeardFrame], parts: list[tuple[float, str]]
) -> list[Finding]:
    """Whether each second of the PCM recording is found in a stream's recording, in order: by correlation at 12 kHz."""
    sound = decoded(bytes(stream.stream), form).mean(axis=1)
    sound = sound[: len(sound) // 4 * 4].reshape(-1, 4).mean(axis=1)
    whole = sound_of(pcm).mean(axis=1).reshape(-1, 4).mean(axis=1)
    waits = [b - a for (a, _), (b, _) in pairwise(stream.came)]
    found = [
        Finding(
            name,
            f"{len(sound) / 12_000:.1f} s, longest time without bytes {max(waits) * 1000:.0f} ms",
            max(waits) > 1.0,
        )
    ]
    lost: list[tuple[str, float]] = []
    lags: list[float] = []
    for start in range(0, len(whole) - PIECE, PIECE):
        piece = whole[start : start + PIECE]
        if np.sqrt(np.mean(piece**2)) < 1e-3:
            continue
        at_s = pcm[start // 240].at_s
        if pcm[(start + PIECE) // 240].at_s - at_s > 0.5:
            continue  # the player was paused, or had nothing, in the middle of it
        # A stream goes on by the clock, through silence too: where a piece has to be follows from when it was sent.
        usual_s = float(np.median(lags[-40:])) if len(lags) > 5 else BURST_S
        reach_s = 0.6 if len(lags) > 5 else 1.5
        first = max(0, int((at_s - pcm[0].at_s + usual_s - reach_s) * LOW_RATE_HZ))
        window = sound[first : first + int(2 * reach_s * LOW_RATE_HZ) + PIECE]
        likeness = _likeness(window, piece)
        if not len(likeness) or likeness.max() < 0.7:
            lost.append((part_at(parts, at_s), round(float(likeness.max(initial=0.0)), 2)))
            continue
        lags.append((first + int(np.argmax(likeness))) / LOW_RATE_HZ - (at_s - pcm[0].at_s))
    drift_ms = float(np.percentile(lags, 90) - np.percentile(lags, 10)) * 1000
    pieces = len(lags) + len(lost)
    text = f"{len(lags)} of {pieces} pieces found where they belong, spread {drift_ms:.0f} ms {lost[:8] or ''}"
    return [*found, Finding(name, text, len(lost) > pieces // 10)]


def _likeness(window: NDArray[np.float64], piece: NDArray[np.float64]) -> NDArray[np.float64]:
    """The normalised correlation of a piece with each place of a window."""
    if len(window) <= len(piece):
        return np.zeros(0)
    size = 1 << int(np.ceil(np.log2(len(window) + len(piece))))
    product = np.fft.irfft(np.fft.rfft(window, size) * np.conj(np.fft.rfft(piece, size)), size)[
        : len(window) - len(piece)
    ]
    sums = np.concatenate(([0.0], np.cumsum(window**2)))
    energy = (sums[len(piece) :] - sums[: -len(piece)])[: len(product)] + 1e-9
    likeness: NDArray[np.float64] = product / np.sqrt(energy * np.sum(piece**2))
    return likeness

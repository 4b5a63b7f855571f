"""Decides which packets of a source go to Opus listeners unchanged, and which frames have to be encoded.

A frame's packet is heard OPUS_LOOKAHEAD_SAMPLES later than its PCM, because our encoder needs this look-ahead. The same
holds for packets of a source with an equal pre-skip that begins with a frame. If the source begins within a frame, or
has another pre-skip, its packets fit only with a *lag* of 0 to 959 samples. The lag delays all sound for all Opus
listeners, encoded sound included. It changes where a track begins in silence, and at a cut.

Frames are passed through in runs. Measurements with decoders gave these rules:

- A packet depends on the packet before. So a run begins with the second fully audible packet of a source, after a
  packet of ours that was encoded without prediction. A decoder without any earlier packet accepts any packet.
- A run must not begin while CELT's post-filter is on. The filter is off again after one to three packets. After
  WAIT_FRAMES the run begins nevertheless, and then after a packet of ours with prediction: the decoder's state after it
  suits the source's next packet better than none (36 to 42 dB for pitched tones instead of 7 to 10).
- After a run the encoder restarts, primed with the frames before (`opus_encoder`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import numpy as np

from tonearm.core.frame import (
    CHANNELS,
    FRAME_BYTES,
    FRAME_SAMPLES,
    OPUS_LOOKAHEAD_SAMPLES,
    PRIMING_FRAMES,
    SAMPLE_BLOCK_BYTES,
    SILENT_FRAME,
    Outputs,
)
from tonearm.worker.filters.blocks import PCM_DTYPE, half_cosine
from tonearm.worker.filters.chain import ChainState
from tonearm.worker.filters.normalization import SourceLoudness
from tonearm.worker.media.opus_format import can_follow_ours, can_pass_through
from tonearm.worker.mixing.voices import GLIDE_SAMPLES, Voices
from tonearm.worker.packets.opus_encoder import NO_POINTS, EncodedBlock, EncoderPoints, PacketEncoders
from tonearm.worker.sources.packet_store import PacketStore
from tonearm.worker.sources.pcm_store import Segment

WAIT_FRAMES: Final = 50
# The lag may change for a track within this many frames, from the frame in which the track begins.
_LAG_FRAMES: Final = 3
_NO_GAIN_DB: Final = 0.05
_SILENT_BELOW: Final = 10  # 70 dB below full scale, in 16-bit units
# The number of earlier frames that encoding needs to begin with any lag.
RUN_HISTORY_FRAMES: Final = PRIMING_FRAMES + 1


class Before(Enum):
    """The kind of the packet before a frame."""

    NOTHING = "nothing"  # there was no packet
    PASSED = "passed"
    ENCODED = "encoded"
    READY = "ready"  # encoded, and a packet of the source may follow
    CUT = "cut"  # any kind; another sound begins


@dataclass(frozen=True, slots=True)
class Passthrough:
    """The state before a frame. `last`: the PCM of the frame before it, None after a run that was passed through.
    `waited`: the number of frames for which a source's post-filter has prevented passing its packets through."""

    before: Before = Before.NOTHING
    lag_samples: int = 0
    last: bytes | None = SILENT_FRAME
    waited: int = 0

    @property
    def follows_passed(self) -> bool:
        """Whether the packet before came from a source, so that encoding restarts."""
        return self.last is None

    def cut(self) -> "Passthrough":
        """The state before a frame in which another sound begins."""
        return self if self.before is Before.NOTHING else replace(self, before=Before.CUT, waited=0)

    def delayed(self, pcm: bytes) -> bytes:
        """The PCM to encode for whole frames of `pcm`: delayed by the lag."""
        return self._delayed_by(self.lag_samples, pcm) if self.lag_samples else pcm

    def primer(self, history: bytes, frames: int) -> bytes:
        """The PCM that was encoded for the last frames of `history`, or would have been."""
        end = len(history) - self.lag_samples * SAMPLE_BLOCK_BYTES
        return history[max(end - frames * FRAME_BYTES, 0) : max(end, 0)].rjust(frames * FRAME_BYTES, b"\0")

    def changing_to(self, lag_samples: int, pcm: bytes) -> bytes:
        """`delayed` for one frame in which the lag changes to `lag_samples`, by a glide."""
        from_, to = (
            np.frombuffer(self._delayed_by(each, pcm), PCM_DTYPE).reshape(-1, CHANNELS)
            for each in (self.lag_samples, lag_samples)
        )
        mixed = to.copy()
        share = half_cosine(GLIDE_SAMPLES)[:, np.newaxis]
        mixed[:GLIDE_SAMPLES] = np.rint(from_[:GLIDE_SAMPLES] * (1.0 - share) + to[:GLIDE_SAMPLES] * share)
        return mixed.tobytes()

    def may_change_to(self, lag_samples: int, pcm: bytes) -> bool:
        """Whether the lag may change to `lag_samples`: true when the repeated or skipped sound is silent."""
        assert self.last is not None
        first = FRAME_BYTES - max(self.lag_samples, lag_samples, GLIDE_SAMPLES) * SAMPLE_BLOCK_BYTES
        around = self.last[first:] + pcm[: GLIDE_SAMPLES * SAMPLE_BLOCK_BYTES]
        return int(np.abs(np.frombuffer(around, PCM_DTYPE).astype(np.int32)).max()) <= _SILENT_BELOW

    def _delayed_by(self, lag_samples: int, pcm: bytes) -> bytes:
        assert self.last is not None
        first = FRAME_BYTES - lag_samples * SAMPLE_BLOCK_BYTES
        return (self.last + pcm)[first : first + len(pcm)]


NOTHING_PASSED: Final = Passthrough()


@dataclass(frozen=True, slots=True)
class PacketRun:
    """The next `frames` frames. They are all passed through as `packets`, or all encoded when there are no packets.

    `lag_samples`: the lag that the frames should have. When it differs from the lag before, the run has one frame.
    `opens`: a packet of the source follows the last frame, which is therefore encoded without prediction, unless it
    `predicts`. `waited`: as in `Passthrough`, after the frames.
    """

    frames: int
    lag_samples: int
    packets: tuple[bytes, ...] = ()
    opens: bool = False
    predicts: bool = False
    waited: int = 0


def first_allowed(
    state: ChainState,
    voices: Voices,
    time: int,
    loudness: Sequence[SourceLoudness],
    *,
    is_stretched: bool = False,
    has_overlays: bool = False,
) -> int | None:
    """The first frame from `time` (samples since frame 0) on whose packets may go to listeners unchanged: 0, or the
    first frame after all fades. None when no packets may. `loudness` is that of the sources in these frames."""
    effects = state.filters.effects
    limiter, target_lufs = effects.limiter, effects.target_lufs
    limits = not state.limiter.is_idle or (limiter is not None and not limiter.changes_nothing)
    if is_stretched or has_overlays or limits or not state.changes_nothing:
        return None
    gains_db = [state.level.now_db]
    if target_lufs is not None:
        if any(source.tagged_lufs is None for source in loudness):
            return None  # the loudness is measured, and may change the gain at any time
        gains_db += [source.first_gain_db(0.0, target_lufs) for source in loudness]
    if any(abs(gain_db) > _NO_GAIN_DB for gain_db in gains_db):
        return None
    ramps = [*(fade.ramp for fade in voices.fades), *voices.rises]
    return max([0, *(-((time - ramp.end) // FRAME_SAMPLES) for ramp in ramps)])


def next_run(
    state: Passthrough, frames: int, segments: Sequence[Segment], first: int | None, store_of: Callable[[int], object]
) -> PacketRun:
    """The next run, of at most `frames` frames. `segments` are the sources' parts in these frames. Frames before
    `first` are encoded; with None all are."""
    finder = _Finder(segments, store_of)
    lag_samples = _lag_to_begin_with(state, segments, first, finder)
    if state.before is Before.CUT and lag_samples != state.lag_samples:
        return PacketRun(1, lag_samples)
    if first is None:
        return PacketRun(frames, lag_samples)
    if first == 0 and state.before in (Before.NOTHING, Before.PASSED, Before.READY):
        packets = finder.packets(frames, lag_samples, may_begin=state.before is Before.NOTHING)
        if packets:
            return PacketRun(len(packets), lag_samples, packets)
    if first == 0 and state.before is not Before.NOTHING:
        wanted = finder.wanted_lag(0)
        if wanted is not None and wanted != lag_samples:
            return PacketRun(1, wanted)
    return _encoded_run(finder, lag_samples, frames, max(first, 1), state.waited)


def _lag_to_begin_with(state: Passthrough, segments: Sequence[Segment], first: int | None, finder: "_Finder") -> int:
    """The lag of the next run. It may change freely at the very beginning and at a cut."""
    if state.before not in (Before.NOTHING, Before.CUT) or not segments:
        return state.lag_samples
    may_pass = first is not None and (first == 0 or state.before is Before.CUT)
    return (finder.wanted_lag(0, anywhere=True) or 0) if may_pass else 0


def _encoded_run(finder: "_Finder", lag_samples: int, frames: int, first: int, waited: int) -> PacketRun:
    """The encoded run up to the first point, from frame `first` on, where a packet of the source may follow."""
    for frame in range(first, frames):
        wanted = finder.wanted_lag(frame)
        if wanted is not None and wanted != lag_samples:
            return PacketRun(frame, lag_samples)  # so that the lag may change at this frame
        before = finder.packet_before(frame, lag_samples)
        if before is None or not finder.fits(frame, lag_samples):
            waited = 0
        elif can_follow_ours(before):
            return PacketRun(frame, lag_samples, opens=True)
        elif waited >= WAIT_FRAMES:
            return PacketRun(frame, lag_samples, opens=True, predicts=True)
        else:
            waited += 1
    return PacketRun(frames, lag_samples, waited=waited)


class _Finder:
    """Finds the packets of sources in frames, which are numbered from the first of the block."""

    def __init__(self, segments: Sequence[Segment], store_of: Callable[[int], object]) -> None:
        self._segments = segments
        self._store_of = store_of

    def packets(self, frames: int, lag_samples: int, *, may_begin: bool) -> tuple[bytes, ...]:
        """The packets for the first frames, as far as they fit. With `may_begin` they may include the source's first
        packet, whose beginning is not audible."""
        found = self._in(0)
        if found is None:
            return ()
        store, sample, segment = found
        frames = min(frames, (segment.offset + segment.length) // FRAME_SAMPLES)
        start = sample - OPUS_LOOKAHEAD_SAMPLES - lag_samples
        if not may_begin or store.start != 0 or sample != 0:
            return tuple(store.run_from(start, frames)) if start >= store.start else ()
        first = store.packet_with(0)
        begins = first is not None and first.start == start and start + first.samples == first.audible_to
        if first is None or not begins or first.samples != FRAME_SAMPLES or not can_pass_through(first.data):
            return ()
        return first.data, *store.run_from(first.audible_to, frames - 1)

    def fits(self, frame: int, lag_samples: int) -> bool:
        found = self._in(frame)
        return found is not None and bool(found[0].run_from(found[1] - OPUS_LOOKAHEAD_SAMPLES - lag_samples, 1))

    def packet_before(self, frame: int, lag_samples: int) -> bytes | None:
        """The packet before that of a frame, if it is fully audible."""
        found = self._in(frame)
        if found is None:
            return None
        store, sample, _ = found
        start = sample - FRAME_SAMPLES - OPUS_LOOKAHEAD_SAMPLES - lag_samples
        packet = store.packet_with(start) if start >= store.start else None
        return packet.data if packet is not None and packet.start == start and packet.is_whole else None

    def wanted_lag(self, frame: int, *, anywhere: bool = False) -> int | None:
        """The lag at which a track's packets fit, for a track that begins in a frame or shortly before it; with
        `anywhere`, for any track. None for a track that has to begin at an exact position, or has no packets."""
        begins = frame * FRAME_SAMPLES
        for segment in reversed(self._segments):
            if segment.offset + segment.length <= begins or segment.offset >= begins + FRAME_SAMPLES:
                continue
            store = self._store_of(segment.source)
            if not isinstance(store, PacketStore) or store.start % FRAME_SAMPLES:
                return None
            origin = segment.offset - segment.sample  # the position of the source's sample 0
            sample = max(segment.sample, begins + FRAME_SAMPLES - 1 - origin)  # the frame's last sample
            sample = min(sample, segment.sample + segment.length - 1)
            link = store.link_with(sample)
            if link is None:
                link = 0 if store.start == 0 else None
            is_new = link is not None and begins + FRAME_SAMPLES - origin - link <= _LAG_FRAMES * FRAME_SAMPLES
            packet = store.packet_with(sample) if is_new or anywhere else None
            if packet is None or not can_pass_through(packet.data):
                return None
            return (begins - OPUS_LOOKAHEAD_SAMPLES - origin - packet.start) % FRAME_SAMPLES
        return None

    def _in(self, frame: int) -> tuple[PacketStore, int, Segment] | None:
        """The source that fills a frame, its sample at the frame's start, and its segment."""
        begins = frame * FRAME_SAMPLES
        for segment in self._segments:
            if segment.offset <= begins and begins + FRAME_SAMPLES <= segment.offset + segment.length:
                store = self._store_of(segment.source)
                if not isinstance(store, PacketStore):
                    return None
                return store, segment.sample + begins - segment.offset, segment
        return None


# The packets of a run, for the outputs that receive packets of sources unchanged


def needs_history(passthrough: Passthrough, points: EncoderPoints, outputs: Outputs) -> bool:
    """Whether encoding restarts, and so needs the frames before."""
    return passthrough.follows_passed or not outputs <= {output for output, _ in points}


def packets_of_run(
    encoders: PacketEncoders,
    passthrough: Passthrough,
    points: EncoderPoints,
    outputs: Outputs,
    run: PacketRun,
    pcm: bytes,
    history: bytes | None,
    *,
    is_silent: bool,
) -> tuple[EncodedBlock, Passthrough, Passthrough]:
    """The packets of a run, from the source or encoded from the frames `pcm`, and the states of passthrough before and
    after it.

    `history` has the last RUN_HISTORY_FRAMES frames before the run, or fewer, where encoding restarts; None when these
    are the first frames. `is_silent`: no source plays in the frames.
    """
    if run.packets:
        for output in outputs:
            encoders.forget(output)  # not needed for now
        passed = EncodedBlock(tuple((output, run.packets) for output in sorted(outputs)), NO_POINTS, NO_POINTS)
        return passed, passthrough, Passthrough(Before.PASSED, run.lag_samples, last=None)
    before: bytes | None = None
    if needs_history(passthrough, points, outputs):
        before = history
        passthrough = replace(passthrough, last=(before or b"")[-FRAME_BYTES:].rjust(FRAME_BYTES, b"\0"))
    if passthrough.before is Before.NOTHING:
        passthrough = replace(passthrough, lag_samples=run.lag_samples)
    lag_samples, delayed = passthrough.lag_samples, None
    if run.lag_samples != lag_samples and (
        passthrough.before is Before.CUT or passthrough.may_change_to(run.lag_samples, pcm)
    ):
        lag_samples, delayed = run.lag_samples, passthrough.changing_to(run.lag_samples, pcm)
    if delayed is None:
        delayed = passthrough.delayed(pcm)
    primer = None if before is None else passthrough.primer(before, PRIMING_FRAMES)
    block = encoders.encode(delayed, outputs, points, lambda: primer, opens=run.opens and not run.predicts)
    if run.opens:
        kind = Before.READY
    elif is_silent and passthrough.before is Before.CUT:
        kind = Before.CUT  # the next sound comes later
    else:
        kind = Before.ENCODED
    return block, passthrough, Passthrough(kind, lag_samples, pcm[-FRAME_BYTES:], run.waited)

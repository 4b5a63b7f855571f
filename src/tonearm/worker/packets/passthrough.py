"""Which packets of a source go to Opus listeners as they are, and what has to be encoded.

The packet of a frame is heard OPUS_LOOKAHEAD_SAMPLES later than its PCM, because that is what our encoder needs. So is
each packet of a source whose pre-skip is as long, if the source begins with a frame. Where it begins within one, or has
another pre-skip, its packets fit only with a *lag* of 0 to 959 samples: all Opus listeners hear everything so much
later, and what is encoded is delayed by it. The lag changes where a track begins and all is silent, and at a cut.

Frames are passed through in runs. Measured, with decoders that hear the result:

- A packet builds on the one before. So a run begins with the second packet of a source that is heard whole, after one
  of ours that was encoded without prediction. A decoder that has heard nothing takes any packet.
- It must not begin while CELT's post-filter is on. That is off again after one to three packets; after WAIT_FRAMES the
  run begins nevertheless, and then after a packet of ours with prediction: the state that it leaves in a decoder is
  nearer to what the source's next one needs than none (36 to 42 dB for pitched tones instead of 7 to 10).
- After a run the encoder begins anew, primed with the frames before (`opus_encoder`).
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
# For so many frames, from the one on in which a track begins, the lag may change for it.
_LAG_FRAMES: Final = 3
_NO_GAIN_DB: Final = 0.05
_SILENT_BELOW: Final = 10  # 70 dB below full scale, in 16-bit units
# What is needed of the frames before to begin encoding with any lag.
RUN_HISTORY_FRAMES: Final = PRIMING_FRAMES + 1


class Before(Enum):
    """The kind of the packet before a frame."""

    NOTHING = "nothing"  # there was none
    PASSED = "passed"
    ENCODED = "encoded"
    READY = "ready"  # encoded, and a packet of the source may follow
    CUT = "cut"  # any kind; another sound begins


@dataclass(frozen=True, slots=True)
class Passthrough:
    """The state before a frame. `last`: the PCM of the frame before it, None after a run that was passed through.
    `waited`: for so many frames the post-filter of a source has kept its packets from being passed through."""

    before: Before = Before.NOTHING
    lag_samples: int = 0
    last: bytes | None = SILENT_FRAME
    waited: int = 0

    @property
    def follows_passed(self) -> bool:
        """Whether the packet before was one of a source, so that encoding begins anew."""
        return self.last is None

    def cut(self) -> "Passthrough":
        """The state before a frame with which another sound begins."""
        return self if self.before is Before.NOTHING else replace(self, before=Before.CUT, waited=0)

    def delayed(self, pcm: bytes) -> bytes:
        """The PCM to encode for whole frames of `pcm`: later by the lag."""
        return self._delayed_by(self.lag_samples, pcm) if self.lag_samples else pcm

    def primer(self, history: bytes, frames: int) -> bytes:
        """The PCM that was encoded, or would have been, for the last frames of `history`."""
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
        """Whether the lag may change to `lag_samples`: the sound that is repeated or left out by that is silent."""
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
    """The next `frames` frames, which are all passed through as `packets`, or all encoded when there are none.

    `lag_samples`: the lag that they should have. When it differs from the lag before, the run has one frame. `opens`: a
    packet of the source follows the last one, which is encoded without prediction for it, unless it `predicts`.
    `waited`: as in `Passthrough`, after them.
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
    """The first frame from `time` (samples since frame 0) on whose packets may go to listeners as they are: 0, or when
    all that fades is over. None when none may. `loudness` is that of the sources in these frames."""
    effects = state.filters.effects
    limiter, target_lufs = effects.limiter, effects.target_lufs
    limits = not state.limiter.is_idle or (limiter is not None and limiter.enabled is True)
    if is_stretched or has_overlays or limits or not state.changes_nothing:
        return None
    gains_db = [state.level.now_db]
    if target_lufs is not None:
        if any(source.tagged_lufs is None for source in loudness):
            return None  # it is measured, and may get a gain at any time
        gains_db += [source.first_gain_db(0.0, target_lufs) for source in loudness]
    if any(abs(gain_db) > _NO_GAIN_DB for gain_db in gains_db):
        return None
    ramps = [*(fade.ramp for fade in voices.fades), *voices.rises]
    return max([0, *(-((time - ramp.end) // FRAME_SAMPLES) for ramp in ramps)])


def next_run(
    state: Passthrough, frames: int, segments: Sequence[Segment], first: int | None, store_of: Callable[[int], object]
) -> PacketRun:
    """The next run, of at most `frames` frames. `segments` say what lies in these; what comes before frame `first` is
    encoded, all of them with None."""
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
    """The run up to where a packet of the source may follow, from frame `first` on."""
    for frame in range(first, frames):
        wanted = finder.wanted_lag(frame)
        if wanted is not None and wanted != lag_samples:
            return PacketRun(frame, lag_samples)  # so that the lag may change there
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
        """The packets for the first frames, as far as they fit. With `may_begin` the source's first one may be among
        them, whose beginning is not heard."""
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
        """The packet before that of a frame, if it is heard whole."""
        found = self._in(frame)
        if found is None:
            return None
        store, sample, _ = found
        start = sample - FRAME_SAMPLES - OPUS_LOOKAHEAD_SAMPLES - lag_samples
        packet = store.packet_with(start) if start >= store.start else None
        return packet.data if packet is not None and packet.start == start and packet.is_whole else None

    def wanted_lag(self, frame: int, *, anywhere: bool = False) -> int | None:
        """The lag with which the packets of a track fit that begins in a frame or shortly before it, or with `anywhere`
        of any. None for what is to begin exactly where it was asked to, and for what has no packets."""
        begins = frame * FRAME_SAMPLES
        for segment in reversed(self._segments):
            if segment.offset + segment.length <= begins or segment.offset >= begins + FRAME_SAMPLES:
                continue
            store = self._store_of(segment.source)
            if not isinstance(store, PacketStore) or store.start % FRAME_SAMPLES:
                return None
            origin = segment.offset - segment.sample  # where sample 0 of the source is
            sample = max(segment.sample, begins + FRAME_SAMPLES - 1 - origin)  # the last one in the frame
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
        """The source that fills a frame, its sample there, and where it lies."""
        begins = frame * FRAME_SAMPLES
        for segment in self._segments:
            if segment.offset <= begins and begins + FRAME_SAMPLES <= segment.offset + segment.length:
                store = self._store_of(segment.source)
                if not isinstance(store, PacketStore):
                    return None
                return store, segment.sample + begins - segment.offset, segment
        return None


# The packets of a run, for the outputs that get packets of sources as they are


def needs_history(passthrough: Passthrough, points: EncoderPoints, outputs: Outputs) -> bool:
    """Whether encoding begins anew, so that it needs the frames before."""
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
    """The packets of a run: those of the source, or encoded from the frames `pcm`; and the states of passthrough before
    and after it.

    `history` has the last RUN_HISTORY_FRAMES frames before, or fewer, where encoding begins anew; None when these are
    the first ones. `is_silent`: no source sounds in them.
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
        kind = Before.CUT  # what goes on comes later
    else:
        kind = Before.ENCODED
    return block, passthrough, Passthrough(kind, lag_samples, pcm[-FRAME_BYTES:], run.waited)

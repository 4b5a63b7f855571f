"""The state of passing packets through, between two frames: what the last packet was, and how late the packets are.

All Opus listeners may hear everything a little later than PCM listeners do, by the *lag* of 0 to 959 samples, so that
the packets of a source fit into the frames (`passthrough`). What is encoded is delayed by it.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import numpy as np

from tonearm.core.frame import CHANNELS, FRAME_BYTES, SAMPLE_BLOCK_BYTES, SILENT_FRAME
from tonearm.worker.mixing.voices import GLIDE_SAMPLES

_SILENCE: Final = 10  # 70 dB below full scale, in 16-bit units
_PCM: Final = np.dtype("<i2")


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
    lag: int = 0
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
        return self._delayed_by(self.lag, pcm) if self.lag else pcm

    def primer(self, history: bytes, frames: int) -> bytes:
        """The PCM that was encoded, or would have been, for the last frames of `history`."""
        end = len(history) - self.lag * SAMPLE_BLOCK_BYTES
        return history[max(end - frames * FRAME_BYTES, 0) : max(end, 0)].rjust(frames * FRAME_BYTES, b"\0")

    def changing_to(self, lag: int, pcm: bytes) -> bytes:
        """`delayed` for one frame in which the lag changes to `lag`, by a glide."""
        from_, to = (np.frombuffer(self._delayed_by(each, pcm), _PCM).reshape(-1, CHANNELS) for each in (self.lag, lag))
        mixed = to.copy()
        share = 0.5 - 0.5 * np.cos(np.pi * (np.arange(GLIDE_SAMPLES) + 0.5) / GLIDE_SAMPLES)[:, np.newaxis]
        mixed[:GLIDE_SAMPLES] = np.rint(from_[:GLIDE_SAMPLES] * (1.0 - share) + to[:GLIDE_SAMPLES] * share)
        return mixed.tobytes()

    def may_change_to(self, lag: int, pcm: bytes) -> bool:
        """Whether the lag may change to `lag`: the sound that is repeated or left out by that is silent."""
        assert self.last is not None
        first = FRAME_BYTES - max(self.lag, lag, GLIDE_SAMPLES) * SAMPLE_BLOCK_BYTES
        around = self.last[first:] + pcm[: GLIDE_SAMPLES * SAMPLE_BLOCK_BYTES]
        return int(np.abs(np.frombuffer(around, _PCM).astype(np.int32)).max()) <= _SILENCE

    def _delayed_by(self, lag: int, pcm: bytes) -> bytes:
        assert self.last is not None
        first = FRAME_BYTES - lag * SAMPLE_BLOCK_BYTES
        return (self.last + pcm)[first : first + len(pcm)]


NOTHING_PASSED: Final = Passthrough()

"""Echo: the sound comes again, and what came again comes again, quieter each time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tonearm.core.effects import Echo
from tonearm.core.frame import CHANNELS, FRAME_SAMPLES, samples_of_ms
from tonearm.worker.filters.blocks import Planes, State, frames_in


@dataclass(frozen=True, slots=True, eq=False)
class _Memory:
    """The input of the delay, w[n] = x[n] + decay · e[n], frame by frame: the last ones of `older` + `block`.

    States of one block share their arrays; the one after frame k takes the first k of `block`.
    """

    older: tuple[Planes, ...]
    block: tuple[Planes, ...] = ()
    frames: int = 0

    def newest(self, frames: int) -> tuple[Planes, ...]:
        """The last `frames` frames that were sent in, fewer where there were not as many."""
        return (*self.older, *self.block[: self.frames])[-frames:]


class EchoKernel:
    """e[n] = w[n - d], so that as many samples are made at once as the delay is long."""

    def __init__(self, setting: Echo) -> None:
        self._mix = setting.mix
        self._decay = setting.decay
        self._delay_samples = samples_of_ms(setting.delay_ms)
        self._kept_frames = -(-self._delay_samples // FRAME_SAMPLES)

    def silence(self) -> State:
        return _Memory(())

    def process(self, planes: Planes, state: State) -> tuple[Planes, Sequence[State]]:
        assert isinstance(state, _Memory)
        delay = self._delay_samples
        samples = planes.shape[1]
        older = state.newest(self._kept_frames)
        line = np.zeros((CHANNELS, delay + samples), dtype=planes.dtype)
        end = delay
        for frame in reversed(older):
            taken = min(end, FRAME_SAMPLES)
            line[:, end - taken : end] = frame[:, FRAME_SAMPLES - taken :]
            end -= taken
        for start in range(0, samples, delay):
            stop = min(start + delay, samples)
            line[:, delay + start : delay + stop] = planes[:, start:stop] + self._decay * line[:, start:stop]
        echo = line[:, :samples]
        sent_in = line[:, delay:]
        frames = frames_in(planes)
        block = tuple(np.ascontiguousarray(part, dtype=np.float32) for part in np.split(sent_in, frames, axis=1))
        return planes + self._mix * echo, tuple(_Memory(older, block, index + 1) for index in range(frames))

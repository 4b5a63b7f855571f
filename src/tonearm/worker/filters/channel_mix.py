"""Channel mix: how much of each channel goes to each channel."""

import numpy as np

from tonearm.core.effects import ChannelMix
from tonearm.worker.filters.blocks import Planes, Stateless


class ChannelMixKernel(Stateless):
    """A 2 by 2 matrix on each pair of samples: left is left_to_left · left + right_to_left · right.

    As lavadsp's `VectorSupport.channelMix`, which also limits each result to full scale at once. Here that is done
    behind the last filter, so that a lower volume makes it whole again.
    """

    def __init__(self, setting: ChannelMix) -> None:
        self._matrix = np.array(
            ((setting.left_to_left, setting.right_to_left), (setting.left_to_right, setting.right_to_right)),
            dtype=np.float32,
        )

    def shaped(self, planes: Planes) -> Planes:
        mixed: Planes = self._matrix @ planes
        return mixed

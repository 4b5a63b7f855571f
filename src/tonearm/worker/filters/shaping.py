"""Filters that look at one pair of samples at a time: channel mix and distortion."""

from collections.abc import Sequence

import numpy as np

from tonearm.core.effects import ChannelMix, Distortion
from tonearm.worker.filters.blocks import FULL_SCALE, Planes, State, frames_in


class _Stateless:
    def silence(self) -> State:
        return None

    def process(self, planes: Planes, state: State) -> tuple[Planes, Sequence[State]]:
        return self._shaped(planes), (None,) * frames_in(planes)

    def _shaped(self, planes: Planes) -> Planes:
        raise NotImplementedError


class ChannelMixKernel(_Stateless):
    """A 2 by 2 matrix on each pair of samples: left is left_to_left · left + right_to_left · right.

    As lavadsp's `VectorSupport.channelMix`, which also limits each result to full scale at once. Here that is done
    behind the last filter, so that a lower volume makes it whole again.
    """

    def __init__(self, setting: ChannelMix) -> None:
        self._matrix = np.array(
            ((setting.left_to_left, setting.right_to_left), (setting.left_to_right, setting.right_to_right)),
            dtype=np.float32,
        )

    def _shaped(self, planes: Planes) -> Planes:
        mixed: Planes = self._matrix @ planes
        return mixed


class DistortionKernel(_Stateless):
    """The curve of lavadsp's `DistortionConverter`, limited to full scale as it is there. Full scale is 1 in it.

    With its defaults lavadsp's curve is sin · cos · tan where another filter is on, and Lavalink leaves the effect out
    where none is; here the defaults are off.
    """

    def __init__(self, setting: Distortion) -> None:
        self._setting = setting

    def _shaped(self, planes: Planes) -> Planes:
        setting = self._setting
        x = planes * (1.0 / FULL_SCALE)
        curve: Planes = setting.sin_offset + np.sin(setting.sin_scale * x)
        curve *= setting.cos_offset + np.cos(setting.cos_scale * x)
        curve *= setting.tan_offset + np.tan(setting.tan_scale * x)
        curve *= setting.scale
        curve += setting.offset
        # The tangent has poles: what it gives there is no number that a later filter could take.
        np.nan_to_num(curve, copy=False)
        np.clip(curve, -1.0, 1.0, out=curve)
        curve *= FULL_SCALE
        return curve

"""Distortion: each sample through a curve of sine, cosine and tangent."""

import numpy as np

from tonearm.core.effects import Distortion
from tonearm.worker.filters.blocks import FULL_SCALE, Planes, Stateless


class DistortionKernel(Stateless):
    """The curve of lavadsp's `DistortionConverter`, limited to full scale as it is there. Full scale is 1 in it.

    With its defaults lavadsp's curve is sin · cos · tan where another filter is on, and Lavalink leaves the effect out
    where none is; here the defaults are off.
    """

    def __init__(self, setting: Distortion) -> None:
        self._setting = setting

    def shaped(self, planes: Planes) -> Planes:
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

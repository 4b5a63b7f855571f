"""`tonearm.bots.source` under the name that it had."""

from tonearm.bots.source import FrameSource, JitterBuffer, SourceStats

__all__ = ["FrameSource", "JitterBuffer", "SourceStats"]

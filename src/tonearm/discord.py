"""`tonearm.bots.discord` by its short name."""

from tonearm.bots.discord import Source, VoicePlayer, dispatch, join

__all__ = ["Source", "VoicePlayer", "dispatch", "join"]

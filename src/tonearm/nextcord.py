"""`tonearm.bots.nextcord` by its short name."""

from tonearm.bots.nextcord import Source, VoicePlayer, dispatch, join

__all__ = ["Source", "VoicePlayer", "dispatch", "join"]

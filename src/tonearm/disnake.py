"""`tonearm.bots.disnake` by its short name."""

from tonearm.bots.disnake import Source, VoicePlayer, dispatch, join

__all__ = ["Source", "VoicePlayer", "dispatch", "join"]

"""`tonearm.bots.joining` under the name that it had."""

from tonearm.bots.joining import Bot, Connectable, JoiningSource, VoiceClient, VoicePlayer, dispatch

__all__ = ["Bot", "Connectable", "JoiningSource", "VoiceClient", "VoicePlayer", "dispatch"]

"""A player in a voice channel of Discord, for nextcord: see docs/discord.md."""

import nextcord

from tonearm.bots.joining import JoiningSource, VoicePlayer, dispatch

__all__ = ["Source", "VoicePlayer", "dispatch", "join"]


class Source(JoiningSource, nextcord.AudioSource):  # type: ignore[misc]  # the library is not installed here
    """A player's sound as an audio source: `voice_client.play(await Source(player).ready())`."""


join = Source.join

"""A player in a voice channel of Discord, for discord.py and py-cord: see docs/discord.md."""

import discord

from tonearm.bots.joining import JoiningSource, VoicePlayer, dispatch

__all__ = ["Source", "VoicePlayer", "dispatch", "join"]


class Source(JoiningSource, discord.AudioSource):
    """A player's sound as an audio source: `voice_client.play(await Source(player).ready())`."""


join = Source.join

"""A node's sound in a voice channel, for discord.py and those that have its voice client."""

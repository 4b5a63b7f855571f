"""A node's sound in a voice channel, for discord.py and libraries that have its voice client."""

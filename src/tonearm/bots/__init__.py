"""Plays a player of a node in a Discord voice channel, for discord.py, py-cord, disnake and nextcord. It uses the
client library, and the node needs no voice support for it."""

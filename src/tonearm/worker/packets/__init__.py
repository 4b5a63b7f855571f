"""The encoded audio of a session: Opus and MP3 encoders, and Opus packets of a source that are passed through
undecoded.

`protocol` and `player.clients` make the headers and streams for clients.
"""

"""The encoded audio of a session: Opus and MP3 encoders, and Opus packets of a source that are passed through
undecoded.

Headers and streams for clients are not made here, but in `protocol` and `player.clients`.
"""

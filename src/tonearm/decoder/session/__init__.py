"""A player's session in a decoder process: the plans that the process renders, and the frames that come back.

What a player is to play is decided in `core.playback`. `player.sending` sends the frames to listeners.
"""

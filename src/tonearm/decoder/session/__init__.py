"""A player's session in a decoder process: the plans that the process renders, and the frames that come back.

`core.playback` decides what a player plays. `player.sending` sends the frames to listeners.
"""

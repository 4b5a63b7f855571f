"""Mixes sources in time: crossfading voices, overlays over the music, and changes of speed and pitch.

`core.joins` and `core.overlays` decide when tracks join and overlays begin. Other effects are in `worker.filters`.
"""

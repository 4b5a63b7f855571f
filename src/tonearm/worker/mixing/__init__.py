"""Mixes sources in time: crossfading voices, overlays over the music, and changes of speed and pitch.

When tracks join and overlays begin is decided in `core.joins` and `core.overlays`. Other effects are in
`worker.filters`.
"""

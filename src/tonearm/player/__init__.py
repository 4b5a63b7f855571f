"""One player: its engine, the sending of frames, the clock, sleep, overlays and its listeners (`clients/`).

The rules of playback and of the queue are in `core`. Decoding is in `decoder` and `worker`. The list of all players is
in `node`.
"""

"""Rules and values that all other packages share: playback, queue, tracks, filters, events, admission, cluster rules.

No module here does I/O, reads a clock, waits or starts a thread. Callers give the time and the input as arguments.
"""

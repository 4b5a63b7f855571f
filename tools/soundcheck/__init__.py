"""A sound check: a node plays a programme that uses everything, and the recordings of all kinds of listeners are
examined.

    python -m tools.soundcheck CLIP CLIP … [--keep FOLDER]

The clips are tracks of at least twelve seconds. The last clip is short and is used as an overlay. The exit code is 1 if
something is wrong.
"""

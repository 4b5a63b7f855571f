"""A sound check: a node plays a programme that uses everything, and what listeners of all kinds recorded is examined.

    python -m tools.soundcheck CLIP CLIP … [--keep FOLDER]

The clips are tracks of at least twelve seconds; the last one is short and sounds over the others. Exit code 1 when
something is wrong.
"""

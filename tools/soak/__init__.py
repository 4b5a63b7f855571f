"""`make soak`: a node for minutes with everything at once, and whether it ended where it began.

Steady listeners must get their frames and hear no click while players come and go, sources fail in every way, decoders
are killed, listeners hang and reset, and the node itself is stopped, killed and started again with its state.
"""

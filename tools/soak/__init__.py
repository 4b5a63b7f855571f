"""`make soak`: runs a node for minutes under all kinds of load, and checks that it ends in the state in which it began.

Steady listeners must get all frames and hear no click. Meanwhile players come and go, sources fail, decoders are
killed, and listeners hang and reset. The node itself is stopped, killed and restarted with its state.
"""

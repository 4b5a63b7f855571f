"""`make faults`: faults of the machine and of other clients, while steady listeners must not lose a frame.

Each fault has its time and a line in a table: what the steady listeners missed, and what the node's figures say.
"""

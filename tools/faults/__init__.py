"""`make faults`: what the machine or other clients do to a node, beside listeners who must not lose a frame by it.

Each fault has its time, and a line in a table: what the steady listeners missed, and what the node's figures say of it.
"""

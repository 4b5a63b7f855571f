"""Many nodes as one, on NATS: membership, ownership of players, forwarding of requests, and moves between nodes.

The rules and values without I/O are in `core/cluster.py`. A node without a cluster does not load this package.
"""

"""The wire: what clients send to a node and what they get from it, as models; no I/O.

`requests`, `replies` and `events` describe every body with its units and ranges. A node reads requests with them, a
client may read replies and events, and the tests compare every answer and event of a node with them. `rendering` makes
the JSON of replies and events from the values of `core`, without a model in between, which is several times faster.
"""

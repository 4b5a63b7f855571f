"""The wire: what clients send to a node and what they get from it, as models; no I/O.

`requests`, `replies` and `events` describe every body with its units and ranges; a node reads requests with them, a
client may read the rest, and the tests hold every answer and event of a node against them. `rendering` makes the JSON
of replies and events from the values of `core`, without a model in between: that is several times cheaper.
"""

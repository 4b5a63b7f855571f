"""Models of the bodies and messages that clients send to a node and get from it. No I/O.

`requests`, `replies` and `events` describe every body with its units and ranges. A node reads requests with these
models. A client can read replies and events with them. The tests compare every answer and event of a node with them.
`rendering` makes the JSON of replies and events from the values of `core` without a model, which is several times
faster.
"""

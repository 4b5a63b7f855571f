"""HTTP and WebSocket: connections, routes, access, login, statuses, audio streams and limits.

The paths and models of the interface are in `description` and `protocol`. What a request does to a player is in `core`
and `player`.
"""

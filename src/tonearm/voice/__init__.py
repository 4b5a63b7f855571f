"""Discord voice channels: the node connects to the voice servers and sends a player's Opus there.

`voices` has the connections of all players, `connection` a single connection, `gateway` its WebSocket, and `media` the
processes that have the keys and encrypt. A node without voice channels loads none of these modules. No audio is
received: the kernel drops it.
"""

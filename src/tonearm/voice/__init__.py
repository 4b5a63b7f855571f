"""Voice channels of Discord: the node connects to the voice servers, and sends a player's Opus there.

`voices` has the connections of all players, `connection` one of them, `gateway` its WebSocket, `media` the processes
that hold keys and encrypt. Nothing of it is loaded on a node that speaks in no channels. It hears nothing: what comes
in is dropped by the kernel.
"""

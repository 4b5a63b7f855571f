"""The node: all players by id, the tracks, artwork and files that need no player, and the saved state.

One player's behaviour is in `player`. HTTP and WebSocket are in `server`. Moving players between nodes is in `cluster`.
"""

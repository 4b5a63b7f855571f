"""The node's side of decoder processes. `pool` has the processes, `session` the frames of one player, `opening` the
player's sources, and `messages` the messages between both sides.

Nothing is decoded here: `tonearm.worker` decodes, in another process.
"""

"""The node's side of decoder processes: `pool` has the processes, `session` the frames of one player, `opening` its
sources. `messages` are the messages between both sides.

Nothing is decoded here: that is `tonearm.worker`, in another process.
"""

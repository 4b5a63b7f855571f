"""Renders a player's session: follows the node's plans and makes its numbered frames, again where a plan changes.

The parts are elsewhere: sources in `worker.sources`, mixing in `worker.mixing`, filters in `worker.filters`, encoders
in `worker.packets`. The node's side of a session is `decoder.session`.
"""

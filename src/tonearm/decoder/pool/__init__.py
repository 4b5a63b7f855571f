"""The node's decoder processes: how they start, how sessions are spread over them, and what happens when one exits.

What a session renders is decided in `decoder.session`. The inside of a process is `tonearm.worker`.
"""

"""The node's decoder processes: how they start, how sessions are spread over them, and what happens when one exits.

`decoder.session` decides what a session renders. `tonearm.worker` is the inside of a process.
"""

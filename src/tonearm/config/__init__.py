"""The configuration: its schema, loading from file and environment, its messages, and the template of the file.

The schema only holds and checks values. `tonearm.serve` hands them to the parts of the node.
"""

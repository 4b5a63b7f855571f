"""Gives opened sources to decoder processes: as a file's descriptor, or as bytes on request. A process gets a live
stream once for all its sessions.

It also opens tracks for their facts alone. `tonearm.sources` turns a URI into an opened source.
"""

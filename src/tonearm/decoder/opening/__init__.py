"""Gives opened sources to decoder processes: as a file's descriptor or as bytes on request, and live streams once for
all.

It also opens tracks only for their facts. How a URI becomes an opened source is in `tonearm.sources`.
"""

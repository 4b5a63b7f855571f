"""The open sources of a decoder process: decoded ahead, kept for a while as PCM or packets, and read by cursors.

Fetching bytes from a URI is not done here, but in `tonearm.sources`. Containers and codecs are in `worker.media`.
"""

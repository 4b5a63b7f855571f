"""The open sources of a decoder process: decoded ahead, stored for a while as PCM or packets, and read by cursors.

`tonearm.sources` fetches the bytes from a URI. Containers and codecs are in `worker.media`.
"""

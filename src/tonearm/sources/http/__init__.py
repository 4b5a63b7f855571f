"""HTTP for all sources: the guarded client, remote files that can be read from any offset, and internet radio.

Which addresses are allowed is decided in `sources.guard`. HLS is in `sources.hls`, and pages are in `sources.resolver`.
"""

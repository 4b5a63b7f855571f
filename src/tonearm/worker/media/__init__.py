"""Containers and codecs, by libav: opens a source, decodes it to PCM or reads its Opus packets, and seeks in it.

The bytes come from `worker.reading`. `worker.sources` decides when a source is decoded, and stores the result.
"""

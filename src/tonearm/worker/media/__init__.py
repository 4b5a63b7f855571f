"""Containers and codecs, by libav: opens a source, decodes it to PCM or reads its Opus packets, and seeks in it.

The bytes come from `worker.reading`. When a source is decoded, and what is kept of it, is decided in `worker.sources`.
"""

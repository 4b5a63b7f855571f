"""The bytes of a source as a file object for libav, with limits and repairs, and the error messages of opening.

Decoding is in `worker.media`. The node fetches the bytes in `tonearm.sources`.
"""

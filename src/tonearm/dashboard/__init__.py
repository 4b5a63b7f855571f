"""The dashboard: the files of its page (`page/`), and the server behind `tonearm dashboard`.

The page is a client of the node's public interface. The interface itself is in `server` and `protocol`.
"""

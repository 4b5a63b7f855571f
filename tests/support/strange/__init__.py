"""Media files that are well-formed, or nearly, with strange numbers in them: real packets in containers of our own.

`files.strange_file(seed)` is the row of them.
"""

"""Confines a process by seccomp and Landlock, which limit its system calls and files.

It does not start processes. `worker.process`, `sources.resolver` and other programs confine themselves with it.
"""

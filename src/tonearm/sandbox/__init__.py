"""Confines a process by seccomp and Landlock: which system calls and files it may use.

It does not start processes. `worker.process`, `sources.resolver` and other programs confine themselves with it.
"""

"""Raises the limit of open files of a process."""

import resource


def raise_file_limit() -> None:
    """For a thousand sockets and pipes; what is started inherits it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

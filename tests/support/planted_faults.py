"""Faults that cannot be had through an interface: of the kernel, and of our own code. Each is there for as long as its
context lasts."""

import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def _in_place_of(owner: object, name: str, fault: Callable[..., Any]) -> Iterator[None]:
    """`owner` has `fault` under this name meanwhile: the one place where tests replace what the product calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, fault)
        yield


@contextmanager
def descriptors_refused(times: int) -> Iterator[None]:
    """The kernel refuses to send descriptors so many times, and takes them then: more are on their way than a process
    may have open (unix(7), ETOOMANYREFS)."""
    really, tries = socket.send_fds, iter(range(times))

    def refusing(*arguments: Any) -> int:
        if next(tries, None) is not None:
            raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))
        return really(*arguments)

    with _in_place_of(socket, "send_fds", refusing):
        yield

"""A program: a process that has loaded all of the node and becomes one, as often as it is asked to, by a fork.

To load the modules is most of what the start of a node costs, and a hundred tests start one of their own. What comes
of it is a process as any other, with its own arguments, environment, folder and log.

It is asked on the socket whose descriptor it is given: a JSON object with `arguments`, `folder` and `variables`, and
two descriptors, for the log and for a socket on which the number of the process comes, and its exit code later.
"""

import contextlib
import gc
import json
import os
import socket
import sys
from typing import Any, NoReturn

import tonearm.serve  # noqa: F401 - so that those that come of it have it
from tonearm.cli import main

_REQUEST_BYTES = 1 << 20


def serve(requests: socket.socket) -> None:
    """Until nobody can ask any more."""
    gc.freeze()
    requests.sendall(b"\n")
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 2)
        _reap()
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            _keep(json.loads(request), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _reap() -> None:
    """Takes note of those that have waited for a node to its end, so that what it cost is counted as this process's."""
    with contextlib.suppress(ChildProcessError):  # there is none
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _keep(request: dict[str, Any], log: int, story: int) -> None:
    """Starts a node, says which process it is, waits for its end and says how it ended. Returns in the node only."""
    node = os.fork()
    if node == 0:
        os.close(story)
        _become_a_node(request, log)
    os.close(log)
    os.write(story, f"{node}\n".encode())
    _, status = os.waitpid(node, 0)
    os.write(story, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become_a_node(request: dict[str, Any], log: int) -> NoReturn:
    os.dup2(log, 2)
    os.close(log)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["variables"])
    sys.argv = ["tonearm", *request["arguments"]]
    sys.exit(main())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))

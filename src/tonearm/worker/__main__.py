"""A decoder process, started by the node only.

`python -m tonearm.worker SOCKET_FD SUSPECTS_FD MEMORY_LIMIT_MB SANDBOX_MODE` is one;
`python -m tonearm.worker SOCKET_FD NODE_PID MEMORY_LIMIT_MB SANDBOX_MODE template` is what others are forked
from.

Ends with 0 when the node closes the socket, with 77 when the memory is used up, with 78 when the sandbox is required
and cannot be had, and with 1 and a traceback for a bug.
"""

import socket
import sys

from tonearm.sandbox.report import SandboxMode
from tonearm.worker.process import prepare, run
from tonearm.worker.template import TEMPLATE, serve_forks


def main() -> None:
    node_descriptor, suspects_or_node_id, memory_limit_mb = map(int, sys.argv[1:4])
    mode = SandboxMode(sys.argv[4])
    confinement = prepare(memory_limit_mb, mode)
    node = socket.socket(fileno=node_descriptor)
    if sys.argv[5:] == [TEMPLATE]:
        serve_forks(node, suspects_or_node_id, confinement, mode)
    else:
        run(node, suspects_or_node_id, confinement, mode)


main()

"""A decoder process, started by the node only.

`python -m tonearm.worker SOCKET_FD SUSPECTS_FD MEMORY_LIMIT_MB SANDBOX_MODE` runs a decoder process. `python -m
tonearm.worker SOCKET_FD NODE_PID MEMORY_LIMIT_MB SANDBOX_MODE template` runs the template, from which other processes
are forked. `python -m tonearm.worker SANDBOX_MODE` is a trial for `tonearm doctor`: it does everything that a decoder
process does before its first source. It prints a JSON object: `libav`, the version; `codecs`, the number of required
codecs; `missing`, those that libav lacks; `sandbox`, the level that the kernel allows; `problem`, why the level is not
higher.

The exit code is 0 when the node closes the socket, 77 when the memory is used up, and 78 when the sandbox is required
but not available. It is 1, with a traceback, for a bug.
"""

import socket
import sys

from tonearm.sandbox.report import SandboxMode
from tonearm.worker.media.formats import CODECS, libav_version, missing_codecs
from tonearm.worker.process import TEMPLATE, prepare, serve_forks, serve_node

_TRIAL_MEMORY_MB = 1024


def main() -> None:
    if len(sys.argv) == 2:
        _try(SandboxMode(sys.argv[1]))
        return
    node_descriptor, suspects_or_node_id, memory_limit_mb = map(int, sys.argv[1:4])
    mode = SandboxMode(sys.argv[4])
    confinement = prepare(memory_limit_mb, mode)
    node = socket.socket(fileno=node_descriptor)
    if sys.argv[5:] == [TEMPLATE]:
        serve_forks(node, suspects_or_node_id, confinement, mode)
    else:
        serve_node(node, suspects_or_node_id, confinement, mode)


def _try(mode: SandboxMode) -> None:
    import json  # decoder processes do not need it

    report = prepare(_TRIAL_MEMORY_MB, mode).enter()
    told = {
        "libav": libav_version(),
        "codecs": len(CODECS),
        "missing": missing_codecs(),
        "sandbox": report.level,
        "problem": report.problem,
    }
    sys.stdout.write(json.dumps(told))


main()

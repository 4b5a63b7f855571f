"""A voice process, started by the node only: `python -m tonearm.voice.process SOCKET_FD SANDBOX_MODE`.

`python -m tonearm.voice.process SANDBOX_MODE` is a trial for `tonearm doctor`: it prints its sandbox as JSON.

The exit code is 0 when the node closes the socket, 78 when the sandbox is required but not available, and 1 with a
traceback for a bug.
"""

import json
import logging
import os
import resource
import secrets
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from typing import Final

from tonearm.core.voice_gateway import MODES
from tonearm.decoder.messages import EXIT_NO_SANDBOX
from tonearm.sandbox.confine import Confinement, in_a_thread, limit_memory, try_confinement
from tonearm.sandbox.kernel import die_with_the_node, name_process
from tonearm.sandbox.report import SandboxMode
from tonearm.sandbox.rules import decoder_rules
from tonearm.voice.messages import DAVE_VERSION, Coder, FromNode, Started
from tonearm.voice.process.dave import DaveCall
from tonearm.voice.process.rtp import RtpStream
from tonearm.voice.process.worker import VoiceWorker

_MEMORY_BYTES: Final = 2 * 1024**3


def _exercise() -> None:
    """Does the work of the process once, to load everything that the sandbox would keep it from loading."""
    now_s = time.monotonic()
    for mode in MODES:
        RtpStream(mode, bytes(32), 1, now_s).packet(secrets.token_bytes(200))
    call = DaveCall(1, 2, 3, DAVE_VERSION, lambda op, data: None)
    for op in (25, 27, 29, 30):
        call.take(op, bytes(8), now_s)
    call.encrypt(bytes(200))


def _prepare(mode: SandboxMode) -> Confinement:
    """Sets the limits and tries the sandbox."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the node decides when it ends
    die_with_the_node()
    limit_memory(_MEMORY_BYTES)
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    logging.disable()  # libdave logs each message that it refuses, and a sender can send many
    in_a_thread(_exercise)
    return try_confinement(mode, decoder_rules, _exercise)


def _serve(node: socket.socket, confinement: Confinement, mode: SandboxMode) -> int:
    name_process("tonearm-voice")
    sandbox = confinement.enter()
    node.sendall(Coder(FromNode).pack(Started(sandbox.level, sandbox.problem, sandbox.seccomp)))
    if mode.needs_seccomp and not sandbox.seccomp:
        return EXIT_NO_SANDBOX
    with suppress(BrokenPipeError, ConnectionResetError):  # the node has ended
        VoiceWorker(node).run()
    return 0


def main() -> None:
    """Runs the process, or the trial for `tonearm doctor`."""
    if len(sys.argv) == 2:
        report = _prepare(SandboxMode(sys.argv[1])).enter()
        sys.stdout.write(json.dumps({"sandbox": report.level, "problem": report.problem}))
        return
    mode = SandboxMode(sys.argv[2])
    try:
        confinement = _prepare(mode)
        status = _serve(socket.socket(fileno=int(sys.argv[1])), confinement, mode)
    except BaseException:  # noqa: BLE001 - the process ends with it; its values may be keys, so they are not shown
        traceback.print_exc(file=sys.stderr)
        status = 1
    os._exit(status)


main()

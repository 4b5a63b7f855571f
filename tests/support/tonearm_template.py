"""A program: a process that has loaded all of the command `tonearm` and becomes one, as often as it is asked to, by a
fork.

To load the modules is most of what the start costs, and some hundred tests start a node or another command of their
own. What comes of it is a process as any other, with its own arguments, environment, folder and outputs.

The same goes for the template of a node's decoders, which cannot be forked when the node wants it: threads run in that
then. So a node has a child from its beginning that waits to become its template. The next one is an interpreter.

It is asked on the socket whose descriptor it is given: a JSON object with `arguments`, `folder`, `variables` and what
the kernel `lacks` (`lesser_kernel`). With it come descriptors: a socket on which the number of the process is told,
and its exit code later, then stderr and stdout.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import socket
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from tonearm.cli import main
from tonearm.decoder.pool import starting
from tonearm.decoder.pool.starting import DECODER_MODULE, ChildProcess, ForkedProcess, start_interpreter
from tonearm.sandbox.confine import in_a_thread
from tonearm.sandbox.kernel import die_with_the_node
from tonearm.worker.process import Exercise

sys.path.append(str(Path(__file__).parent))  # a program has no packages around it
make_lesser: Any = importlib.import_module("lesser_kernel").make_lesser
sys.path.pop()

_REQUEST_BYTES = 1 << 20
_COMMANDS = ("control", "doctor", "listen", "play", "show", "transfer")
_ALSO_LOADED = (*(f"commands.{name}" for name in _COMMANDS), "config.load", "dashboard.command", "serve")


def serve(requests: socket.socket) -> None:
    """Until nobody can ask any more."""
    for name in _ALSO_LOADED:
        importlib.import_module(f"tonearm.{name}")
    with closing(Exercise()) as exercise:
        in_a_thread(exercise)
    gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 3)
        _reap()
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            _keep(json.loads(request), *descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _reap() -> None:
    """Takes note of those that have waited for others to their ends, so that what they cost is counted as this
    process's."""
    with contextlib.suppress(ChildProcessError):  # there is none
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _keep(request: dict[str, Any], story: int, *outputs: int) -> None:
    """Starts the command, says which process it is, waits for its end and says how it ended. Returns in the command
    only, and in the template of a node."""
    die_with_the_node()  # that is, with the template: tests that are killed leave nothing behind
    command = os.fork()
    if command == 0:
        die_with_the_node()
        os.close(story)
        _become(request, *outputs)
        return
    for output in outputs:
        os.close(output)
    os.write(story, f"{command}\n".encode())
    _, status = os.waitpid(command, 0)
    os.write(story, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(request: dict[str, Any], stderr: int, stdout: int) -> None:
    """Returns in the template of a node."""
    for output, number in ((stderr, 2), (stdout, 1)):
        os.dup2(output, number)
        os.close(output)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["variables"])
    sys.argv = ["tonearm", *request["arguments"]]
    if request["lacks"]:
        make_lesser(request["lacks"])
    if request["arguments"][:1] == ["serve"]:
        child = _TemplateToBe()
        if child.process is None:
            return
        starting.start_interpreter = child.start
    sys.exit(main())


class _TemplateToBe:
    """A child of the node. `process` is None in the child itself, once it is told to be the template."""

    def __init__(self) -> None:
        self._socket, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process_id = os.fork()
        if process_id == 0:
            self._socket.close()
            self.process = None
            self._become(end)
        else:
            end.close()
            self.process = ForkedProcess(process_id)

    def start(
        self,
        arguments: tuple[object, ...],
        descriptors: tuple[int, ...],
        interpreter: str | None = None,
        *,
        module: str = DECODER_MODULE,
    ) -> ChildProcess:
        """In the place of `start_interpreter`."""
        if self._socket.fileno() < 0 or module != DECODER_MODULE:
            return start_interpreter(arguments, descriptors, interpreter, module=module)
        with self._socket as end:
            words = " ".join(map(str, (*descriptors, *arguments)))
            socket.send_fds(end, [words.encode()], descriptors)
        assert self.process is not None
        return self.process

    @staticmethod
    def _become(requests: socket.socket) -> None:
        with requests:
            words, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 1)
        if not words:
            os._exit(0)  # The node has ended without one.
        number, *arguments = words.decode().split()
        os.dup2(descriptors[0], int(number))
        os.close(descriptors[0])
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        os.close(null)
        os.setsid()
        sys.argv = [DECODER_MODULE, *arguments]


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
    if sys.argv[0] == DECODER_MODULE:
        runpy.run_module(DECODER_MODULE, run_name="__main__", alter_sys=True)

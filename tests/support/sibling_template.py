"""What a process does that becomes other ones by forks, which are children of whoever asks for them.

It is asked on a socket: a packet of words, the numbers that the descriptors which come with it are to have, in the
first one, and arguments in the others. It answers with the number of the process, and with 0 where a system does not
allow that. It loads no module that a process started alone would not have: the sandbox shuts later imports out.
"""

import gc
import os
import socket

from tonearm.sandbox.kernel import fork_sibling
from tonearm.sandbox.report import SandboxUnavailable

_REQUEST_BYTES = 4096
_MOST_DESCRIPTORS = 8


def serve(requests: socket.socket) -> list[str] | None:
    """Returns the arguments in each process that is to begin with them, and None once nobody can ask any more."""
    gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, _MOST_DESCRIPTORS)
        if not request:
            return None
        numbers, *arguments = request.decode().split("\0")
        try:
            process_id = fork_sibling()
        except SandboxUnavailable:
            process_id = -1
        if process_id == 0:
            # Only now: whoever knows its number may kill it by that of its group.
            os.setsid()
            requests.send(str(os.getpid()).encode())
            requests.close()
            _place(descriptors, [int(number) for number in numbers.split()])
            return arguments
        if process_id < 0:
            requests.send(b"0")
        for descriptor in descriptors:
            os.close(descriptor)


def _place(descriptors: list[int], numbers: list[int]) -> None:
    """Gives each descriptor its number, which another one of them may still have."""
    for index, number in enumerate(numbers):
        if descriptors[index] == number:
            continue
        if number in descriptors[index:]:
            descriptors[descriptors.index(number)] = os.dup(number)
        os.dup2(descriptors[index], number)
        os.close(descriptors[index])

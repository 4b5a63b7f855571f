"""A program: a process that has loaded what decoder processes load, and becomes one as often as it is asked to, by a
fork.

To load the modules and to try them is nearly all that the start of a decoder process costs. It loads nothing else, so
that what comes of it has at hand what one that was started alone has, and no more: the sandbox shuts later imports out.

It is asked on the socket whose descriptor it is given: a packet of words. The first one has the numbers that the
descriptors which come with it are to have. The second one is "held" for a process that stops itself before it does
anything, until it gets SIGCONT. The others are the arguments of `tonearm.worker`. It answers with the number of the
process, which is a child of the one that asks, and with 0 where a system does not allow that.
"""

import gc
import os
import runpy
import signal
import socket
import sys
import time
from contextlib import closing

import tonearm.worker.template  # noqa: F401 - so that those that come of it have it
from tonearm.sandbox.forking import SiblingFork
from tonearm.sandbox.report import SandboxUnavailable
from tonearm.worker.warm_up import Exercise

_MODULE = "tonearm.worker"
_REQUEST_BYTES = 4096
_MOST_DESCRIPTORS = 8


def serve(requests: socket.socket) -> bool:
    """Returns True in each process that is to become a decoder, and False once nobody can ask any more."""
    with closing(Exercise()) as exercise:
        exercise.in_a_thread()
    while len(os.listdir("/proc/self/task")) > 1:  # a thread that was joined may still be on its last steps
        time.sleep(0.0005)
    gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, _MOST_DESCRIPTORS)
        if not request:
            return False
        numbers, is_held, *arguments = request.decode().split("\0")
        try:
            process_id = SiblingFork()()
        except SandboxUnavailable:
            process_id = -1
        if process_id == 0:
            requests.close()
            _place(descriptors, [int(number) for number in numbers.split()])
            os.setsid()
            if is_held == "held":
                os.kill(os.getpid(), signal.SIGSTOP)
            sys.argv = [_MODULE, *arguments]
            return True
        requests.send(str(max(0, process_id)).encode())
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


if __name__ == "__main__" and serve(socket.socket(fileno=int(sys.argv[1]))):
    runpy.run_module(_MODULE, run_name="__main__", alter_sys=True)

"""A program: a process that has loaded what decoder processes load, and becomes one as often as it is asked to, by a
fork (`sibling_template`). The first of the arguments says whether that is held until it gets SIGCONT. To load the
modules and to try them is nearly all that the start of a decoder process costs.
"""

import importlib
import os
import runpy
import signal
import socket
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import tonearm.worker.process  # noqa: F401 - so that those that come of it have it
from tonearm.sandbox.confine import in_a_thread
from tonearm.worker.process import Exercise

sys.path.append(str(Path(__file__).parent))  # a program has no packages around it
template: Any = importlib.import_module("sibling_template")
sys.path.pop()

_MODULE = "tonearm.worker"


def warm_up() -> None:
    with closing(Exercise()) as exercise:
        in_a_thread(exercise)
    while len(os.listdir("/proc/self/task")) > 1:  # a thread that was joined may still be on its last steps
        time.sleep(0.0005)


if __name__ == "__main__":
    requests = socket.socket(fileno=int(sys.argv[1]))
    warm_up()
    arguments = template.serve(requests)
    if arguments is not None:
        is_held, *others = arguments
        if is_held == "held":
            os.kill(os.getpid(), signal.SIGSTOP)
        sys.argv = [_MODULE, *others]
        runpy.run_module(_MODULE, run_name="__main__", alter_sys=True)

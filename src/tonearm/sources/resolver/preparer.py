"""A process that prepares one script of a page: it has read no page, and has neither requests nor files.

`python -m tonearm.sources.resolver.preparer MEMORY_LIMIT_MB SANDBOX_MODE` is started by the node only.

{"op": "start"}                     → {}
{"op": "prepare"}, with the script  → {}, with its prepared form
Whatever fails is answered with {"error": why}. The first answer has {"sandbox": {…}}, as that of `child`. The node ends
the process after the script, which may have taken it over.
"""

import contextlib
import importlib
import os
import resource
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from tonearm.core.metadata import JsonObject
from tonearm.sandbox.confine import try_confinement
from tonearm.sandbox.kernel import die_with_the_node
from tonearm.sandbox.report import SandboxMode, SandboxRequiredError, resolver_supervision
from tonearm.sandbox.rules import decoder_rules
from tonearm.sources.resolver.confinement import close_descriptors, limit_resources
from tonearm.sources.resolver.javascript import ScriptError, prepare
from tonearm.sources.resolver.messages import NodePipe

_NICE: Final = 10  # sound comes first
_CPU_SECONDS: Final = 70  # the engine ends a script before
_TRIAL: Final = 'var _yt_player={};(function(g){var window=this;g.a=function(x){x.set("alr","yes")}})(_yt_player);'


def answer_requests(arguments: Sequence[str]) -> None:
    """Answers until stdin ends. `arguments` are those of the command line."""
    memory_limit_mb, mode = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the node decides when this process ends
    die_with_the_node()
    close_descriptors((0, 1, 2))
    pipe = NodePipe(sys.stdin.buffer, sys.stdout.buffer)
    os.nice(_NICE)
    limit_resources(int(memory_limit_mb))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    with contextlib.suppress(ImportError):
        importlib.import_module("_quickjs")
        _try()  # loads the files of the engine and the solver, since no file can be opened later
    supervision = resolver_supervision(SandboxMode(mode))
    sandbox = try_confinement(supervision.mode, decoder_rules, _try).enter()
    news: JsonObject = {"sandbox": asdict(sandbox)}
    while (received := pipe.next()) is not None:
        request, script = received
        answer: JsonObject = {}
        prepared = b""
        try:
            supervision.require(sandbox)
            if request["op"] == "prepare":
                prepared = prepare(script.decode())
        except (SandboxRequiredError, ScriptError, ImportError, UnicodeDecodeError) as error:
            answer = {"error": str(error)}
        pipe.send({**news, **answer}, prepared)
        news = {}


def _try() -> Any:
    return prepare(_TRIAL)


if __name__ == "__main__":
    answer_requests(sys.argv[1:])

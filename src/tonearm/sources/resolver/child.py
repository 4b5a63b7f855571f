"""The inside of a resolving process, which answers the node's requests over stdin and stdout (`messages`).

`python -m tonearm.sources.resolver.child MEMORY_LIMIT_MB SANDBOX_MODE JAVASCRIPT SITE…` is started by the node only.

{"op": "start"}                                → {}: it is ready for more
{"op": "sites"}                                → {"unknown": [sites that no extractor is named after], "searches":
                                                  {key: site}, "known": [key], "extractors": [key, in small letters]}
{"op": "match", "url", "limit_s"}              → {"extractor": name or null}
{"op": "resolve", "url", "item", "limit_s"}    → {"page": {…}} as `extraction.Extraction.resolve` gives it
{"op": "open", "url", "most", "whole", "limit_s"}
                                               → {"page": {…}} or {"list": {…}} as `extraction.Extraction.open` gives it
The last two may have "extractor_args", as `Extraction.take_keys` takes them, and a file of cookies behind the line.
Whatever fails is answered with {"error": why}, and with {"script": true} when a script of the page is at fault. A page
whose script is being prepared is answered with {"pending": true}, and asked for again. The first answer has
{"sandbox": {…}}, a `SandboxReport`, in it, too.

While it resolves a page, it asks the node for requests (`page_requests`) and for prepared scripts (`scripts`). It ends
with its stdin.
"""

import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from tonearm.sandbox.kernel import die_with_the_node
from tonearm.sandbox.report import SandboxMode, SandboxRequiredError, resolver_supervision
from tonearm.sources.resolver.confinement import audit, close_descriptors, confine_resolver, limit_resources
from tonearm.sources.resolver.javascript import ScriptPending
from tonearm.sources.resolver.messages import NodePipe

# The node kills a late process; this limit is for a process whose node is gone.
_SELF_DESTRUCT_AFTER_S: Final = 2.0


def answer_requests(arguments: Sequence[str]) -> None:
    """Answers until stdin ends.

    `arguments` are those of the command line: memory limit in MiB, mode of the sandbox, whether scripts are run
    ("true"), names of the extractors that may be used (none: all but generic).
    """
    memory_limit_mb, mode, javascript, *sites = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the node decides when this process ends
    die_with_the_node()
    close_descriptors((0, 1, 2))
    pipe = NodePipe(sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb"))
    # What a library prints must not get between the answers.
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    limit_resources(int(memory_limit_mb))
    sys.addaudithook(audit)
    try:
        from tonearm.sources.resolver.extraction import Extraction
    except Exception as error:  # noqa: BLE001 - a broken installation breaks in its own ways
        pipe.send({"error": f"yt-dlp cannot be loaded: {type(error).__name__}: {error}"})
        return
    extraction = Extraction(tuple(sites), pipe, runs_scripts=javascript == "true")
    supervision = resolver_supervision(SandboxMode(mode))
    sandbox = confine_resolver(supervision.mode)
    news: dict[str, Any] = {"sandbox": asdict(sandbox)}
    while (received := pipe.next()) is not None:
        request, cookies = received
        signal.setitimer(signal.ITIMER_REAL, request.get("limit_s", 60.0) + _SELF_DESTRUCT_AFTER_S)
        try:
            supervision.require(sandbox)
            extraction.take_keys(request.get("extractor_args", {}), cookies)
            answer = _perform(extraction, request)
        except SandboxRequiredError as error:
            answer = {"error": str(error)}
        except ScriptPending:
            answer = {"pending": True}
        except Exception as error:  # noqa: BLE001 - extractors raise anything, and each is an answer
            answer = extraction.failure_of(error)
        signal.setitimer(signal.ITIMER_REAL, 0)
        pipe.send({**news, **answer})
        news = {}


def _perform(extraction: Any, request: dict[str, Any]) -> dict[str, Any]:
    match request["op"]:
        case "start":
            extraction.get_ready()
            return {}
        case "sites":
            extraction.match("http://localhost/")  # the expressions of all extractors are compiled by their first use
            return {
                "unknown": extraction.unknown_sites(),
                "searches": extraction.searches(),
                "known": [*extraction.searches(permitted=False)],
                "extractors": extraction.keys_of_extractors(),
            }
        case "match":
            return {"extractor": extraction.match(request["url"])}
        case "open":
            return extraction.open(  # type: ignore[no-any-return]
                request["url"], most=request["most"], whole=request["whole"], limit_s=request["limit_s"]
            )
        case _:
            return {"page": extraction.resolve(request["url"], request["item"])}


if __name__ == "__main__":
    answer_requests(sys.argv[1:])

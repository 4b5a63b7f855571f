"""The inside of a resolving process: a line of JSON comes in on stdin, a line of JSON goes out on stdout.

{"op": "sites"}                                → {"unknown": [sites that no extractor is named after]}
{"op": "match", "url", "limit_s"}              → {"extractor": name or null}
{"op": "resolve", "url", "limit_s", "proxy", "proxy_port"}
                                               → {"page": {…}} as `extraction.Extraction.resolve` gives it
Whatever fails is answered with {"error": why}. Ends with its stdin.
"""

import json
import os
import signal
import sys
from typing import Any, Final

from tonearm.sources.resolver.confinement import Confinement, limit_resources

# The node ends a process that is late. This is for one whose node is gone.
_SELF_DESTRUCT_AFTER_S: Final = 2.0


def serve(memory_limit_mb: int, sites: tuple[str, ...]) -> None:
    """Answers until stdin ends. `sites` are the names of the extractors that may be used; none are all but generic."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    # Nothing that a library prints must get between the answers.
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
    limit_resources(memory_limit_mb)
    confinement = Confinement()
    sys.addaudithook(confinement)
    try:
        from tonearm.sources.resolver.extraction import Extraction
    except Exception as error:  # noqa: BLE001 - a broken installation breaks in its own ways
        _answer(answers, {"error": f"yt-dlp cannot be loaded: {type(error).__name__}: {error}"})
        return
    extraction = Extraction(sites)
    for line in sys.stdin.buffer:
        request: dict[str, Any] = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request.get("limit_s", 60.0) + _SELF_DESTRUCT_AFTER_S)
        confinement.proxy_port = request.get("proxy_port")
        try:
            answer = _perform(extraction, request)
        except Exception as error:  # noqa: BLE001 - extractors raise anything, and each is an answer
            answer = {"error": extraction.reason_of(error)}
        confinement.proxy_port = None
        signal.setitimer(signal.ITIMER_REAL, 0)
        _answer(answers, answer)


def _perform(extraction: Any, request: dict[str, Any]) -> dict[str, Any]:
    match request["op"]:
        case "sites":
            extraction.match("http://localhost/")  # the expressions of all extractors are compiled by their first use
            return {"unknown": extraction.unknown_sites()}
        case "match":
            return {"extractor": extraction.match(request["url"])}
        case _:
            return {"page": extraction.resolve(request["url"], request["proxy"])}


def _answer(answers: Any, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()

"""YouTube's scripts: the engine that runs them (quickjs-ng) and the solver that finds in them what a page needs
(yt-dlp-ejs).

A script is prepared once, which takes some seconds, and its prepared form solves the challenges of each page. Both run
strangers' code, in an engine that has nothing but memory and time.

`python -m tonearm.sources.resolver.javascript` says in a line of JSON what is installed, for `tonearm doctor`.
"""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import zlib
from functools import cache
from typing import Any, Final

ENGINE: Final = "quickjs-ng"
SOLVER: Final = "yt-dlp-ejs"
INSTALL: Final = f"pip install -U yt-dlp {SOLVER} {ENGINE}"
LARGEST_SCRIPT_BYTES: Final = 8 * 1024 * 1024
_LARGEST_PREPARED_BYTES: Final = 64 * 1024 * 1024
_PREPARING: Final = (320, 60)  # MiB and seconds of processor
_SOLVING: Final = (250, 5)
_STACK_BYTES: Final = 2 * 1024 * 1024
_ASK: Final = "(question) => JSON.stringify(jsc(JSON.parse(question)))"
_MOST_CHARACTERS: Final = 120


class ScriptError(Exception):
    """A script does not do what it should; the message says in a few words what it does."""


class ScriptPending(BaseException):
    """The script is being prepared. A `BaseException`, so that no handler in yt-dlp goes on with the page."""


def script_key(solver: str, script: bytes) -> str:
    """The key of a prepared script: it depends on the script, and on the version of the solver that prepared it."""
    return hashlib.sha256(solver.encode() + b"\n" + script).hexdigest()


def installed(name: str) -> str:
    """The version of an installed package, empty without."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return ""


def prepare(script: str) -> bytes:
    """The prepared form of a script, packed. Raises `ScriptError`."""
    answer = _run({"type": "player", "player": script, "requests": [], "output_preprocessed": True}, *_PREPARING)
    prepared = answer.get("preprocessed_player")
    if not isinstance(prepared, str) or len(prepared) > _LARGEST_PREPARED_BYTES:
        raise ScriptError("its prepared form is none")
    return zlib.compress(prepared.encode("utf-8", "surrogatepass"), 6)


def solve(prepared: bytes, challenges: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The answers by challenge for each of `[{"type": "n" or "sig", "challenges": [texts]}]`. Raises `ScriptError`."""
    unpacking = zlib.decompressobj()
    code = unpacking.decompress(prepared, _LARGEST_PREPARED_BYTES).decode("utf-8", "surrogatepass")
    answer = _run({"type": "preprocessed", "preprocessed_player": code, "requests": challenges}, *_SOLVING)
    solved: list[dict[str, str]] = []
    for response in answer.get("responses") or ():
        match response:
            case {"type": "result", "data": dict(found)} if all(isinstance(one, str) for one in found.values()):
                solved.append(found)
            case _:
                raise ScriptError(f"it gives no answer: {_short(response.get('error'))}")
    if len(solved) != len(challenges):
        raise ScriptError("it gives no answer")
    return solved


@cache
def _solver() -> tuple[str, str]:
    """The two parts of the solver, read once, since no file can be opened where scripts are prepared."""
    import yt_dlp_ejs.yt.solver as solver

    return solver.lib(), solver.core()


def _run(question: dict[str, Any], memory_mb: int, seconds: int) -> dict[str, Any]:
    import _quickjs  # not its wrapper, which starts a thread

    library, core = _solver()
    context = _quickjs.Context()
    context.set_memory_limit(memory_mb * 1024 * 1024)
    context.set_max_stack_size(_STACK_BYTES)
    context.set_time_limit(seconds)
    try:
        context.eval(library)
        context.eval("Object.assign(globalThis, lib); undefined")
        context.eval(core)
        answer = json.loads(context.eval(_ASK)(json.dumps(question)))
    except Exception as error:  # noqa: BLE001 - the engine's, and what its answer makes of the reader of JSON
        raise ScriptError(_told(error, seconds)) from None
    if not isinstance(answer, dict) or answer.get("type") != "result":
        raise ScriptError("its answer is none")
    return answer


def _told(error: Exception, seconds: int) -> str:
    text = str(error)
    if "interrupted" in text:
        return f"it runs for longer than {seconds} s"
    if isinstance(error, MemoryError) or "out of memory" in text or text == "null":
        return "it wants too much memory"
    return f"it breaks off: {_short(text) or type(error).__name__}"


def _short(text: object) -> str:
    lines = str(text or "").splitlines()
    return lines[0][:_MOST_CHARACTERS] if lines else ""


def problem() -> str:
    """Why scripts cannot be run here: a package is missing, or its version is not the one that yt-dlp needs. Empty
    when they can be run."""
    missing = [name for name in (SOLVER, ENGINE) if not installed(name)]
    if missing or importlib.util.find_spec("_quickjs") is None:
        return f"{' and '.join(missing) or ENGINE} {'are' if len(missing) > 1 else 'is'} not installed"
    wanted, found = wanted_solver(), installed(SOLVER)
    if found.split(".")[:2] != wanted.split(".")[:2]:
        return f"this yt-dlp wants {SOLVER} {wanted}, not {found}"
    return ""


def wanted_solver() -> str:
    """The version of the solver that the installed yt-dlp takes."""
    from yt_dlp.extractor.youtube.jsc._builtin import vendor

    return str(vendor.VERSION)


def _facts() -> dict[str, str]:
    try:
        return {"engine": installed(ENGINE), "solver": installed(SOLVER), "problem": problem()}
    except ImportError:
        return {"engine": installed(ENGINE), "solver": installed(SOLVER), "problem": "yt-dlp is not installed"}


if __name__ == "__main__":
    print(json.dumps(_facts()))  # noqa: T201 - a program

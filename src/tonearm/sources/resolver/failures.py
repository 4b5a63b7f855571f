"""Why a page could not be resolved, in words for the user."""

import re
from dataclasses import replace
from typing import Final

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage

_HINT: Final = "Open the page in a browser to see whether it plays there; an update of yt-dlp may know it better."
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_BOILERPLATE: Final = (
    re.compile(r"[;.,]?\s*please report this issue on\b.*", re.IGNORECASE | re.DOTALL),
    re.compile(r"[;.,]?\s*confirm you are on the latest version\b.*", re.IGNORECASE | re.DOTALL),
    re.compile(r"\s*\(caused by .*", re.DOTALL),
    re.compile(r"\s*Traceback \(most recent call last\):.*", re.DOTALL),
    re.compile(r"[;.,]?\s*(?:see|use|try)\s+(?:again with\s+)?\"?--?[a-z].*", re.IGNORECASE | re.DOTALL),
)
_PREFIX: Final = re.compile(r"(?:ERROR:\s*)+(?:\[[^\]]{1,60}\]\s*)?")
_MAX_INPUT_CHARACTERS: Final = 4000
_MAX_CHARACTERS: Final = 300


def resolve_error(reason: str, hint: str = _HINT) -> PlayError:
    return PlayError(
        PlayFailure(FailureCode.RESOLVE_FAILED, Stage.RESOLVE, f"The page was not resolved: {reason}.", hint)
    )


def resolve_problem(failure: PlayFailure) -> PlayError:
    """For what was met on the way from the page to its link. A refusal keeps its code: it is the operator's."""
    if failure.code in (FailureCode.SOURCE_BLOCKED, FailureCode.SOURCE_REFUSED):
        return PlayError(replace(failure, stage=Stage.RESOLVE))
    return resolve_error(failure.message.rstrip("."), failure.hint)


def plain_reason(text: str) -> str:
    """yt-dlp's own words as one plain line: no colours, advice for its command line, causes in Python or tracebacks."""
    text = _ANSI.sub("", text[:_MAX_INPUT_CHARACTERS])
    for pattern in _BOILERPLATE:
        text = pattern.sub("", text)
    text = _PREFIX.sub("", text.strip(), count=1)
    printable = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(printable.split())
    if len(line) > _MAX_CHARACTERS:
        line = line[: _MAX_CHARACTERS - 1] + "…"
    return line.rstrip(" .:;") or "yt-dlp gave no reason"

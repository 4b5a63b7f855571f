"""A folder as a playlist: its audio files, in natural order."""

import os
import re
from collections.abc import Iterable
from typing import Final

from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.core.source_uri import SourceUri
from tonearm.sources.playlist import MAX_ENTRIES, Listed, Listing

_AUDIO_ENDINGS: Final = (
    *(".aac", ".ac3", ".aif", ".aifc", ".aiff", ".au", ".caf", ".eac3", ".flac", ".m4a", ".m4b", ".mka", ".mp2"),
    *(".mp3", ".mp4", ".mpga", ".oga", ".ogg", ".opus", ".snd", ".w64", ".wav", ".wave", ".weba", ".webm", ".wma"),
    ".wv",
)
_NUMBER: Final = re.compile(r"([0-9]+)")


def folder_listing(folder: SourceUri, names: Iterable[str]) -> Listing:
    """The audio files among `names`, by their endings, without hidden files.

    Raises `PlayError` without any.
    """
    audio = [name for name in names if name.lower().endswith(_AUDIO_ENDINGS) and not name.startswith(".")]
    if not audio:
        message = "There are no audio files in the folder (in folders within it nothing is looked for)."
        hint = "Give a folder that holds some, or a file."
        raise PlayError.of(FailureCode.FILE_UNREADABLE, Stage.CONNECT, message, hint)
    entries = (Listed(os.path.join(folder.path, name)) for name in sorted(audio, key=natural_order)[:MAX_ENTRIES])
    return Listing(tuple(entries), len(audio), os.path.basename(folder.path))


def natural_order(name: str) -> tuple[list[str | int], str]:
    """A sort key: `2 b` comes before `10 a`, and upper and lower case are equal."""
    return [int(part) if index % 2 else part for index, part in enumerate(_NUMBER.split(name.casefold()))], name

"""A folder as a playlist of its audio files."""

import os
import re
from collections.abc import Iterable
from typing import Final

from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.core.source_uri import SourceUri, text_of_file
from tonearm.sources.lists.listed import MAX_ENTRIES, Listed, Listing

AUDIO_ENDINGS: Final = (
    *(".aac", ".ac3", ".aif", ".aifc", ".aiff", ".au", ".caf", ".eac3", ".flac", ".m4a", ".m4b", ".mka", ".mp2"),
    *(".mp3", ".mp4", ".mpga", ".oga", ".ogg", ".opus", ".snd", ".w64", ".wav", ".wave", ".weba", ".webm", ".wma"),
    ".wv",
)
_NUMBER: Final = re.compile(r"([0-9]+)")


def folder_listing(folder: SourceUri, names: Iterable[str]) -> Listing:
    """The audio files among `names`, by their endings, in natural order and without hidden files.

    Raises `PlayError` without any.
    """
    audio = [name for name in names if name.lower().endswith(AUDIO_ENDINGS) and not name.startswith(".")]
    if not audio:
        message = "There are no audio files in the folder (in folders within it nothing is looked for)."
        hint = "Give a folder that holds some, or a file."
        raise PlayError.of(FailureCode.FILE_UNREADABLE, Stage.CONNECT, message, hint)
    first = sorted(audio, key=natural_order)[:MAX_ENTRIES]
    entries = (Listed(text_of_file(os.path.join(folder.path, name))) for name in first)
    return Listing(tuple(entries), len(audio), os.path.basename(folder.path))


def natural_order(name: str) -> tuple[list[str | int], str]:
    """A sort key: `2 b` comes before `10 a`, and upper and lower case are equal."""
    return [int(part) if index % 2 else part for index, part in enumerate(_NUMBER.split(name.casefold()))], name

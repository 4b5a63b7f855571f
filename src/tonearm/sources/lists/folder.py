"""A folder as a playlist of its audio files."""

import os
from collections.abc import Iterable

from tonearm.core.failure import FailureCode, PlayError, Stage
from tonearm.core.library import AUDIO_ENDINGS, natural_order
from tonearm.core.printable import readable
from tonearm.core.source_uri import SourceUri, text_of_file
from tonearm.sources.lists.listed import MAX_ENTRIES, Listed, Listing


def folder_listing(folder: SourceUri, names: Iterable[str]) -> Listing:
    """The audio files among `names`, by their endings, in natural order and without hidden files.

    Raises `PlayError` without any.
    """
    audio = [name for name in names if name.lower().endswith(AUDIO_ENDINGS) and not name.startswith(".")]
    if not audio:
        message = "The folder has no audio files (folders inside it are not searched)."
        hint = "Give a folder with audio files, or a file."
        raise PlayError.of(FailureCode.FILE_UNREADABLE, Stage.CONNECT, message, hint)
    first = sorted(audio, key=natural_order)[:MAX_ENTRIES]
    entries = (Listed(text_of_file(os.path.join(folder.path, name))) for name in first)
    return Listing(tuple(entries), len(audio), readable(os.path.basename(folder.path)))

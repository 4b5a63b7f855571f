"""Files that a player has played to their ends before: as long as one is the same file, nothing about it has to be
found out again.

A player that nobody listens to and that plays files in a loop so changes tracks without a decoder. Each file is still
opened by the node at each turn, so one that is gone, is forbidden by now or has become another one is noticed as ever.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from tonearm.audio.opening.source_input import Opener
from tonearm.core.failure import PlayError
from tonearm.core.opened_source import FileVersion, OpenedSource, ignore_wait
from tonearm.core.source_uri import SourceUri
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts

log = logging.getLogger(__name__)

MAX_FAMILIAR_TRACKS: Final = 1000  # of one player, some hundred bytes each


class FamiliarFile(NamedTuple):
    """A file as it was when its track was played to `end_sample` (48 kHz, in the file)."""

    version: FileVersion
    facts: SourceFacts
    end_sample: int


class Turn(NamedTuple):
    """A change of tracks for which nothing has to be decoded, if both files are still the same: the current one ends
    at `end_sample`, and the one with the id `next_id` has these facts."""

    end_sample: int
    next_id: str
    next_facts: SourceFacts
    files: tuple[tuple[SourceUri, FileVersion], ...]


class FamiliarFiles:
    """Those of one player, by their tracks; the ones that were played last are kept."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, FamiliarFile] = OrderedDict()

    def played_to_end(self, track: Track, version: FileVersion, facts: SourceFacts, end_sample: int) -> None:
        self._files[track.id] = FamiliarFile(version, facts, end_sample)
        self._files.move_to_end(track.id)
        if len(self._files) > MAX_FAMILIAR_TRACKS:
            self._files.popitem(last=False)

    def is_familiar(self, track: Track) -> bool:
        return track.id in self._files

    def turn(self, current: Track, following: Track) -> Turn | None:
        """The change from one track to the other; None when not both are familiar."""
        here, there = self._files.get(current.id), self._files.get(following.id)
        if here is None or there is None:
            return None
        files = {current.uri: here.version, following.uri: there.version}
        return Turn(here.end_sample, following.id, there.facts, tuple(files.items()))


class Look:
    """Opens the files of a turn to see whether they are still the same, and calls `done` with the answer, unless it is
    cancelled before. `closing` ends when everything is given back."""

    def __init__(self, turn: Turn, opener: Opener, done: Callable[[bool], None]) -> None:
        self._done: Callable[[bool], None] | None = done
        self.closing: Final = asyncio.get_running_loop().create_task(self._look(turn, opener))

    def cancel(self) -> None:
        self._done = None
        self.closing.cancel()

    async def _look(self, turn: Turn, opener: Opener) -> None:
        are_same = False
        try:
            are_same = all([await _is_same(opener, uri, version) for uri, version in turn.files])
        except PlayError:
            pass  # found once more, and reported, when the track is opened to be played
        except Exception:
            log.exception("a file could not be looked at")
        if self._done is not None:
            self._done(are_same)


async def _is_same(opener: Opener, uri: SourceUri, version: FileVersion) -> bool:
    opened = await opener.open(uri, ignore_wait)
    if not isinstance(opened, OpenedSource):
        return False
    await opened.close()
    return opened.version == version

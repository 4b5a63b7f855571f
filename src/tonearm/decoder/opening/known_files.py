"""What is known of local files, so that a length that has to be counted is counted once, until the file changes."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from tonearm.core.failure import PlayError
from tonearm.core.opened_source import FileVersion, OpenedSource, ignore_wait
from tonearm.core.source_uri import SourceUri
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.opening.source_input import OpenUri

MAX_KNOWN_FILES: Final = 5000  # some hundred bytes each


class KnownFiles:
    """Facts of local files, for all players of a node; the files used last are kept. `load` opens a file in a decoder
    process for its facts, and counts its length where the file does not state it."""

    def __init__(self, open_source: OpenUri, load: Callable[[SourceUri], Awaitable[SourceFacts]]) -> None:
        self._open_source = open_source
        self._load = load
        self._facts: OrderedDict[FileVersion, SourceFacts] = OrderedDict()
        self._loads: dict[FileVersion, asyncio.Task[SourceFacts | None]] = {}

    def completed(self, version: FileVersion | None, facts: SourceFacts) -> SourceFacts:
        """The facts, with the exact length if it was counted before. Keeps facts that have an exact length."""
        if version is None:
            return facts
        if facts.is_length_exact:
            self._note(version, facts)
            return facts
        known = self._facts.get(version)
        return facts if known is None else replace(facts, length_ms=known.length_ms, is_length_exact=True)

    async def counted(self, uri: SourceUri, version: FileVersion) -> SourceFacts | None:
        """The facts of a file, with an exact length. None when the length cannot be counted, or the file has changed
        meanwhile. Raises `PlayError`."""
        opened = await self._open_source(uri, ignore_wait)
        if not isinstance(opened, OpenedSource):
            return None
        await opened.close()
        if opened.version != version:
            return None
        facts = self._facts.get(version)
        if facts is None:
            load = self._loads.get(version)
            if load is None:
                load = self._loads[version] = asyncio.get_running_loop().create_task(self._found(version, uri))
            facts = await asyncio.shield(load)
        return facts

    async def stop(self) -> None:
        for load in self._loads.values():
            load.cancel()
        if self._loads:
            await asyncio.wait(self._loads.values())

    async def _found(self, version: FileVersion, uri: SourceUri) -> SourceFacts | None:
        try:
            facts = await self._load(uri)
        except (PlayError, OSError, TimeoutError):
            return None  # the same failure is met and reported when the track is opened to be played
        finally:
            del self._loads[version]
        if not facts.is_length_exact:
            return None
        self._note(version, facts)
        return facts

    def _note(self, version: FileVersion, facts: SourceFacts) -> None:
        self._facts[version] = facts
        self._facts.move_to_end(version)
        if len(self._facts) > MAX_KNOWN_FILES:
            self._facts.popitem(last=False)

"""Who is told what becomes of a player's sources."""

from typing import Protocol

from tonearm.core.failure import PlayFailure
from tonearm.core.outcome import SourceId
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts


class SoundOwner(Protocol):
    """Who is told what becomes of the sources."""

    def source_opened(self, source: SourceId, facts: SourceFacts) -> None: ...

    def source_failed(self, source: SourceId, failure: PlayFailure) -> None:
        """It cannot be opened, or gave nothing."""
        ...

    def source_expanded(self, source: SourceId, tracks: tuple[Track, ...]) -> None:
        """It is a list of other sources, which these tracks stand for."""
        ...

    def source_decoded(self, source: SourceId) -> None:
        """It is decoded to its end."""
        ...

    def frames_arrived(self) -> None: ...

    def sources_guilty(self, sources: tuple[SourceId, ...]) -> None:
        """A decoder process died while it worked on them. Told before they are opened again."""
        ...

    def went_wrong(self) -> None:
        """What the decoder said led to an error of the node's own, which is in the log."""
        ...

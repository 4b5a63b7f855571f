"""What goes in and out of `PlanState`: the program that a player wants, the orders and the events that follow."""

from typing import NamedTuple, TypeAlias

from tonearm.core.failure import PlayFailure
from tonearm.core.filters import Filters
from tonearm.core.play_queue import SourceId
from tonearm.decoding.messages import Crossfade, Flush, Grant, OpenSession, Overlay, Plan


class Mix(NamedTuple):
    """What is made of the sources that play: `crossfade` is how the next one begins, None for a join without a gap.
    `overlays` sound over all of it; while they do and it `holds`, the music stands still."""

    filters: Filters
    crossfade: Crossfade | None = None
    overlays: tuple[Overlay, ...] = ()
    holds: bool = False

    def differs_at_once(self, played: "Mix") -> bool:
        """Whether it differs in more than how the next source begins."""
        return (self.filters, self.overlays, self.holds) != (played.filters, played.overlays, played.holds)

    def without_overlay(self, source: SourceId) -> "Mix":
        return self._replace(overlays=tuple(overlay for overlay in self.overlays if overlay.source != source))


class Program(NamedTuple):
    """What a player wants to be played: `next` comes behind `current`, which is None for silence."""

    current: SourceId | None
    next: SourceId | None
    mix: Mix


class Epoch(NamedTuple):
    """The number of a plan, and the mix that it was made with."""

    number: int
    mix: Mix


class OpenSourceAt(NamedTuple):
    """Order: open this source in the session, from this sample (48 kHz) on. `resumes`: it was played up to there."""

    source: SourceId
    start_sample: int
    resumes: bool


class RenewSession(NamedTuple):
    """Order: close the session, report it with `lose`, and open another one."""


Order: TypeAlias = OpenSession | Plan | Grant | Flush | OpenSourceAt | RenewSession


class SourceBegan(NamedTuple):
    """The first sample of the source is in the frame that is sent next."""

    source: SourceId


class SourceEnded(NamedTuple):
    """The last sample of the source was sent, or is in the next frame when another source joins there. `failure` says
    why, when the source was interrupted. `fades`: it goes on under the one that begins there, until `SourceFaded`.
    `end_sample`: where another source joins, in the file (48 kHz); None where that does not follow from frames."""

    source: SourceId
    failure: PlayFailure | None
    fades: bool = False
    end_sample: int | None = None


class SourceFaded(NamedTuple):
    """A source that went on under another one has faded out."""

    source: SourceId

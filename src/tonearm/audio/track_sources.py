"""The sources of a player's tracks in its decoder session: opened and dropped as the rules ask for it."""

from tonearm.audio.opening.loudness_memory import LoudnessHints, LoudnessMemory
from tonearm.audio.opening.source_input import SourcePart
from tonearm.audio.session.decoder_session import DecoderSession
from tonearm.core.frame import samples_of_ms
from tonearm.core.opened_source import FileVersion
from tonearm.core.play_queue import Action, Drop, Open, SourceId
from tonearm.core.playback import Playback
from tonearm.core.track import Track
from tonearm.core.track_info import MeasuredLoudness, SourceFacts


class TrackSources:
    """Knows which source stands for which track, and what is known of their loudness."""

    def __init__(self, playback: Playback, session: DecoderSession) -> None:
        self._playback = playback
        self._session = session
        self._tracks: dict[SourceId, Track] = {}
        self._loudness = LoudnessMemory()
        self._versions: dict[SourceId, FileVersion] = {}  # of those that are local files

    def track(self, source: SourceId) -> Track | None:
        return self._tracks.get(source)

    def carry_out(self, actions: tuple[Action, ...]) -> None:
        """A source that is dropped while its own track is opened anew, as a seek does, goes on as the new one."""
        opened_anew = self._opened_anew(actions)
        for action in actions:
            if isinstance(action, Drop):
                again = opened_anew.pop(action.source, None)
                if again is not None and self._session.seek(action.source, again.source, _part(again)):
                    self._tracks[again.source] = again.track
                    self._loudness_hints(again)
                    del self._tracks[action.source]
                    self._versions.pop(action.source, None)
                    self._loudness.closed(action.source)
                else:
                    self.drop(action.source)
            elif action.source not in self._tracks:
                self._tracks[action.source] = action.track
                self._session.open(action.source, _part(action), action.delay_s, self._loudness_hints(action))

    def drop(self, source: SourceId) -> None:
        self._tracks.pop(source, None)
        self._versions.pop(source, None)
        self._loudness.closed(source)
        self._session.drop(source)

    def opened(self, source: SourceId, facts: SourceFacts, version: FileVersion | None) -> None:
        """The source is open; `version` is None for what is no local file."""
        if version is not None:
            self._versions[source] = version
        self._loudness.opened(source, facts.album)

    def version(self, source: SourceId | None) -> FileVersion | None:
        """Which file a source was when it was opened."""
        return None if source is None else self._versions.get(source)

    def join_asleep(self, action: Open, end_sample: int) -> None:
        """The next track begins in the frame that passes next, and is opened when the player wakes."""
        self._tracks[action.source] = action.track
        self._session.join_asleep(action.source, _part(action), end_sample, self._loudness_hints(action))

    def measured(self, source: SourceId, measured: MeasuredLoudness) -> None:
        self._loudness.measured(source, measured)

    def _opened_anew(self, actions: tuple[Action, ...]) -> dict[SourceId, Open]:
        """By the source that is dropped, what opens its track anew.

        Of a track in a loop the current source and the next one may be dropped: the older one is that which sounds.
        """
        dropped = sorted((action.source for action in actions if isinstance(action, Drop)), reverse=True)
        by_track = {track.id: source for source in dropped if (track := self._tracks.get(source)) is not None}
        return {
            by_track[action.track.id]: action
            for action in actions
            if isinstance(action, Open) and not action.delay_s and action.track.id in by_track
        }

    def _loudness_hints(self, action: Open) -> LoudnessHints:
        """What is known of the loudness of a track that is opened, which is remembered under its new source."""
        waiting = self._playback.queue if self._playback.filters.effects.normalizes else ()
        return self._loudness.opening(action.source, action.track, waiting)


def _part(action: Open) -> SourcePart:
    end_sample = None if action.end_ms is None else samples_of_ms(action.end_ms)
    return SourcePart(action.track.uri, samples_of_ms(action.start_ms), end_sample)

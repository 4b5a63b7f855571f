"""The sources of a player's tracks in its decoder session: opened and dropped as the rules ask for it."""

from tonearm.audio.opening.loudness_memory import LoudnessHints, LoudnessMemory
from tonearm.audio.opening.source_input import SourcePart
from tonearm.audio.session.decoder_session import DecoderSession
from tonearm.core.frame import samples_of_ms
from tonearm.core.opened_source import FileVersion
from tonearm.core.play_queue import Action, Drop, Open, Seek, SourceId
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
        for action in actions:
            match action:
                case Drop(source):
                    self.drop(source)
                case Seek(source, new_source, start_ms):
                    track = self._tracks[source]
                    hints = self._known(new_source, track)
                    self._session.seek(source, new_source, _part(track, start_ms), hints)
                    self._forget(source)
                case Open(source, track, delay_s, start_ms):
                    self._session.open(source, _part(track, start_ms), delay_s, self._known(source, track))

    def drop(self, source: SourceId) -> None:
        self._forget(source)
        self._session.drop(source)

    def opened(self, source: SourceId, facts: SourceFacts, version: FileVersion | None) -> None:
        """The source is open; `version` is None for what is no local file."""
        if version is not None:
            self._versions[source] = version
        self._loudness.opened(source, facts.album)

    def version(self, source: SourceId | None) -> FileVersion | None:
        """Which file a source was when it was opened."""
        return None if source is None else self._versions.get(source)

    def measured(self, source: SourceId, measured: MeasuredLoudness) -> None:
        self._loudness.measured(source, measured)

    def _known(self, source: SourceId, track: Track) -> LoudnessHints:
        """Notes whose source it is. Returns what is known of the loudness of the track."""
        self._tracks[source] = track
        waiting = self._playback.queue if self._playback.filters.effects.normalizes else ()
        return self._loudness.opening(source, track, waiting)

    def _forget(self, source: SourceId) -> None:
        self._tracks.pop(source, None)
        self._versions.pop(source, None)
        self._loudness.closed(source)


def _part(track: Track, start_ms: int) -> SourcePart:
    end_sample = None if track.end_ms is None else samples_of_ms(track.end_ms)
    return SourcePart(track.uri, samples_of_ms(start_ms), end_sample)

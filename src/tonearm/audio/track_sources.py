"""The sources of a player's tracks in its decoder session: opened and dropped as the rules ask for it."""

from typing import Final

from tonearm.audio.opening.familiar_files import FamiliarFiles, Turn
from tonearm.audio.opening.loudness_memory import LoudnessHints, LoudnessMemory
from tonearm.audio.opening.source_input import SourcePart
from tonearm.audio.session.decoder_session import DecoderSession
from tonearm.core.frame import ms_of_samples, samples_of_ms
from tonearm.core.play_queue import Action, Drop, Open, SourceId
from tonearm.core.playback import Playback
from tonearm.core.track import Track
from tonearm.core.track_info import MeasuredLoudness, SourceFacts

MOST_OFF_MS: Final = 100  # an encoder's delay at both ends, which not every container leaves out of the length


class TrackSources:
    """Knows which source stands for which track, and what is known of their loudness."""

    def __init__(self, playback: Playback, session: DecoderSession) -> None:
        self._playback = playback
        self._session = session
        self._tracks: dict[SourceId, Track] = {}
        self._loudness = LoudnessMemory()
        self._facts: dict[SourceId, SourceFacts] = {}
        self._familiar = FamiliarFiles()

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
                    self._facts.pop(action.source, None)
                    self._loudness.closed(action.source)
                else:
                    self.drop(action.source)
            elif action.source not in self._tracks:
                self._tracks[action.source] = action.track
                self._session.open(action.source, _part(action), action.delay_s, self._loudness_hints(action))

    def drop(self, source: SourceId) -> None:
        self._tracks.pop(source, None)
        self._facts.pop(source, None)
        self._loudness.closed(source)
        self._session.drop(source)

    def opened(self, source: SourceId, facts: SourceFacts) -> None:
        self._facts[source] = facts
        self._loudness.opened(source, facts.album)

    def played_to_end(self, source: SourceId, end_sample: int) -> None:
        """The source, that of the current track, was played, and another one joined at its end."""
        facts, version, end_ms = (
            self._facts.get(source),
            self._session.file_version(source),
            self._playback.current.known_end_ms,
        )
        if facts is None or version is None or end_ms is None:
            return
        # One that has become shorter ends where the player is when it wakes.
        if abs(ms_of_samples(end_sample) - end_ms) <= MOST_OFF_MS:
            self._familiar.played_to_end(self._playback.current, version, facts, end_sample)

    @property
    def turn(self) -> Turn | None:
        """The change to the next track, if nothing has to be decoded for it."""
        playback = self._playback
        if not self._familiar.is_familiar(playback.current) or playback.crossfade.duration_ms:
            return None
        following = playback.following
        return None if following is None else self._familiar.turn(playback.current, following)

    def join_asleep(self, action: Open, turn: Turn) -> None:
        """The next track begins in the frame that passes next, and is opened when the player wakes."""
        self._tracks[action.source] = action.track
        self._session.join_asleep(action.source, _part(action), turn.end_sample, self._loudness_hints(action))

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

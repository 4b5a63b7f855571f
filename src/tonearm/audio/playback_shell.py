"""The shell of a `Playback`, which holds the rules: does what they ask for, and reports what becomes of the sources."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from tonearm.audio.clients.broadcast import Broadcast
from tonearm.audio.fades import Fades, SkippedSound
from tonearm.audio.next_opening import NextOpening
from tonearm.audio.player_overlays import PlayerOverlays
from tonearm.audio.player_services import PlayerServices
from tonearm.audio.sending import Sending
from tonearm.audio.session.decoder_session import DecoderSession
from tonearm.audio.session.plan_moves import Mix, Program, SourceBegan, SourceEnded, SourceFaded
from tonearm.audio.timers import LivePause, StallWatch, patience_at_start, patience_in_mid_track
from tonearm.audio.track_sources import TrackSources
from tonearm.core.events import Event, PlayerState
from tonearm.core.failure import SILENT_FOR_TOO_LONG, PlayError, PlayFailure, never_started, own_error
from tonearm.core.figures import underrun_cause
from tonearm.core.play_queue import Drop, SourceId
from tonearm.core.playback import Outcome, Playback
from tonearm.core.source_uri import SourceUri
from tonearm.core.track import Track
from tonearm.core.track_info import MeasuredLoudness, SourceFacts
from tonearm.decoding.messages import Encoded

log = logging.getLogger(__name__)

NOT_SEEKABLE: Final = "not_seekable"  # why a seek failed


class PlaybackShell:
    """For one player, until `close`. It has the decoder session, the overlays, and the timers for missing audio; what
    a tick sends is in `sending`. `emit` gets the events of the rules, in order.
    """

    def __init__(
        self,
        playback: Playback,
        broadcast: Broadcast,
        services: PlayerServices,
        emit: Callable[[tuple[Event, ...]], None],
    ) -> None:
        self._playback = playback
        self._services = services
        self._emit = emit
        self._is_closed = False
        self._late_failure: tuple[SourceId, PlayFailure] | None = None
        self._countings: set[asyncio.Task[None]] = set()
        self._counted_for: SourceId | None = None  # the source whose length was asked for last
        clock, call_later = services.clock, services.call_later
        self.fades: Final = Fades(playback)
        self.session: Final = DecoderSession(
            self, services.pool, services.opener, lambda: clock.until_tick_s(self.sending), services.carriers
        )
        self._sources = TrackSources(playback, self.session)
        self.overlays: Final = PlayerOverlays(
            self.session, emit, self._overlays_changed, call_later, services.start_timeout_s
        )
        self._next_opening = NextOpening(playback, lambda: len(broadcast) > 0)
        self.sending: Final = Sending(
            self, playback, self.session, self.overlays, self._next_opening, broadcast, clock, call_later, emit
        )
        self._stalls = StallWatch(call_later, self._report_stall, self._give_up)
        self._live_pause = LivePause(call_later, self.session.rest, services.live_pause_s)

    def stop(self) -> None:
        """Stops all timers and the ticks; the session is left."""
        self._is_closed = True
        self._stalls.follow(None, patience_in_mid_track(), is_suspended=False)
        self._live_pause.follow(None)
        self.sending.stop()
        for counting in self._countings:
            counting.cancel()

    async def close(self) -> None:
        """After `stop`. Returns when everything is given back."""
        await self.session.close()
        if self._countings:
            await asyncio.wait(self._countings)

    # What the rules ask for

    def perform(self, outcome: Outcome, *, skipped: SkippedSound | None = None) -> None:
        """Emits the events, carries out the actions and plans what is to sound. `skipped`: the track that a skip ended,
        which may fade out."""
        self._emit(outcome.events)
        playback, sending = self._playback, self.sending
        actions = outcome.actions
        cut_fade = None if skipped is None else self.fades.of_skip(skipped, actions)
        if skipped is not None and cut_fade is not None:
            actions = tuple(action for action in actions if action != Drop(skipped.source))
        self._sources.carry_out(actions)
        sending.follow()
        if (not playback.paused or self.overlays) and not sending.is_asleep:
            self.session.wake()
        # While a player wakes up frames pass without audio, and no overlay is to begin with those.
        overlays = self.overlays.orders if playback.clock_started and not sending.is_waking else ()
        holds = bool(overlays) and playback.paused
        may_crossfade = playback.crossfade.duration_ms > 0
        mix = Mix(playback.filters, self.fades.next_crossfade(), overlays, holds, may_crossfade)
        if playback.paused:
            self.session.fall_silent()
        self.session.is_paused = playback.paused
        program = Program(playback.current_source, playback.next_source, mix)
        self.session.play(program, cut_fade, from_silence=not sending.sounds)
        self.wait_changed()
        is_held_live = playback.paused and playback.current.info.is_stream and not self.overlays
        self._live_pause.follow(playback.current_source if is_held_live else None)
        sending.update_ticking()

    def change_fade(self, change: Callable[[], Outcome]) -> None:
        """Makes a change by which the crossfade may begin at another place, and performs it."""
        self.perform(self.fades.change(change))

    def open_next_in_time(self) -> None:
        """Has the next track opened when little of this one is left."""
        if self._next_opening.take_due(self.session.is_decoded):
            self.perform(self._playback.next_is_due())

    # What comes of sending frames

    def take_up(self, event: SourceBegan | SourceEnded | SourceFaded) -> None:
        source = event.source
        if isinstance(event, SourceFaded):
            self._sources.drop(source)
            return
        if isinstance(event, SourceBegan):
            self.perform(self._playback.first_frame(source))
            return
        if event.failure is None:
            outcome = self._playback.ended(source)
        else:
            outcome = self._playback.interrupted(source, event.failure)
        if not event.fades:
            self._sources.drop(source)
        self.perform(outcome)

    def underran(self) -> None:
        if self._playback.state is PlayerState.PLAYING:
            self._services.totals.underruns[underrun_cause(self.session.waiting_for.stage)] += 1
        self.perform(self._playback.underrun())
        if self._late_failure is not None:
            source, failure = self._late_failure
            self._late_failure = None
            self.source_failed(source, failure)

    def unheard(self) -> None:
        """Nobody listens now. Has the length of the current file counted where it is only guessed: without it the
        player cannot sleep, and would be decoded to its end."""
        playback = self._playback
        source, info = playback.current_source, playback.current.info
        is_guessed = info.is_seekable and not info.is_length_exact and not info.is_stream
        if self._is_closed or not is_guessed or source == self._counted_for or not self._sources.version(source):
            return
        self._counted_for = source
        counting = asyncio.get_running_loop().create_task(self._count(source, playback.current.uri))
        self._countings.add(counting)
        counting.add_done_callback(self._countings.discard)

    async def _count(self, source: SourceId | None, uri: SourceUri) -> None:
        try:
            file = await self._services.known_files.find(uri)
            if file is None or source is None or self._is_closed or self._sources.version(source) != file.version:
                return
            self.sending.catch_up()
            self.perform(self._playback.counted(source, file.facts.length_ms))
        except PlayError:
            pass  # found once more, and reported, when the track is opened to be played
        except Exception:
            log.exception("player %s: the length of a file could not be counted", self._playback.player_id)
            self.went_wrong()

    # What becomes of sources

    def source_opened(self, source: SourceId, facts: SourceFacts) -> None:
        if self.overlays.own(source):
            self.overlays.opened(source, facts)
            return
        version = self.session.file_version(source)
        facts = self._services.known_files.completed(version, facts)
        self._sources.opened(source, facts, version)
        self.fades.source_opened(source)
        self.perform(self._playback.opened(source, facts))
        self.open_next_in_time()

    def source_failed(self, source: SourceId, failure: PlayFailure) -> None:
        if self.overlays.own(source):
            self.overlays.failed(source, failure)
            return
        if source == self._playback.current_source and self.sending.sends_music:
            # A source that was opened again has failed: its buffered frames are sent first.
            self._late_failure = (source, failure)
            return
        self._fail(source, failure)

    def seek_failed(self, source: SourceId, failure: PlayFailure) -> None:
        log.info("player %s: %s %s", self._playback.player_id, failure.message, failure.hint)
        outcome = self._playback.seek_failed(source, NOT_SEEKABLE)
        self.fades.seek_failed(source)
        self.perform(outcome)

    def source_faded(self, source: SourceId) -> None:
        self._sources.drop(source)

    def source_expanded(self, source: SourceId, tracks: tuple[Track, ...]) -> None:
        if self.overlays.own(source):
            self.overlays.expanded(source)
            return
        outcome = self._playback.expanded(source, tracks)
        self._sources.drop(source)
        self.perform(outcome)

    def source_interrupted(self, source: SourceId, failure: PlayFailure) -> None:
        if self.overlays.own(source):
            self.overlays.interrupted(source, failure)

    def overlay_got_audio(self, source: SourceId) -> None:
        self.overlays.got_audio(source)

    def source_measured(self, source: SourceId, measured: MeasuredLoudness) -> None:
        self._sources.measured(source, measured)

    def source_decoded(self, source: SourceId) -> None:
        if self.overlays.own(source):
            self.overlays.decoded(source)
            return
        self.open_next_in_time()
        if self.sending.waits_in_mid_track:
            self.session.flush()
        self.frames_arrived()

    def frames_arrived(self) -> None:
        self.sending.frames_arrived()

    def encoded_arrived(self, encoded: Encoded) -> None:
        self.sending.encoded_arrived(encoded)

    def sources_suspected(self, sources: tuple[SourceId, ...]) -> None:
        for source in sources:
            track = self._sources.track(source) or self.overlays.track(source)
            if track is not None:
                self._services.suspects.add(track.uri)

    def session_failed(self, source: SourceId | None, failure: PlayFailure) -> None:
        self.overlays.session_failed(failure)
        if source is not None:
            self.source_failed(source, failure)

    def wait_changed(self) -> None:
        if self._is_closed:
            return
        playback = self._playback
        patience = (
            patience_in_mid_track() if playback.is_in_mid_track else patience_at_start(self._services.start_timeout_s)
        )
        wait = self.session.waiting_for
        is_suspended = playback.paused or not (wait.counts or wait.is_told)
        self._stalls.follow(playback.stalled, patience, is_suspended=is_suspended, is_patient=not wait.counts)

    def went_wrong(self) -> None:
        """After an error of the node itself: gives the track up, so that the player goes on and clients see why."""
        try:
            source = self._playback.current_source
            if source is not None:
                self._fail(source, own_error())
        except Exception:
            log.exception(
                "player %s: the track could not be given up; the player stands still", self._playback.player_id
            )
            self.sending.stand_still()

    def _overlays_changed(self) -> None:
        if not self._is_closed:
            self.perform(Outcome())

    def _fail(self, source: SourceId, failure: PlayFailure) -> None:
        outcome = self._playback.failed(source, failure)
        self._sources.drop(source)
        self.perform(outcome)

    def _report_stall(self, source: SourceId) -> None:
        self.perform(self._playback.stuck(source, self._stalls.threshold_ms, self.session.waiting_for.cause))

    def _give_up(self, source: SourceId) -> None:
        failure = SILENT_FOR_TOO_LONG
        if not self._playback.is_in_mid_track:
            wait = self.session.waiting_for
            failure = never_started(self._stalls.limit_s, wait.cause, wait.stage)
        self.source_failed(source, failure)

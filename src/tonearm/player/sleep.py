"""Sleep: a player without listeners continues by the clock alone, without a decoder and without ticks.

A player sleeps while its source is seekable and its length is known, because its position and the end of the track then
follow from the time and the speed. If the length is an estimate, the player wakes a minute before it, to find the true
end. In a pause the position does not move, so a seekable source is enough, and the track need not have begun. Near the
end, and when a listener comes, the player wakes: its source is opened again at the player's position. Until audio
arrives the position moves on without it, so that a new listener does not change the time at which the track ends. After
a pause the position stands.

`Sleep` decides; the engine lets the frames pass, closes the session and opens it again.
"""

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from tonearm.core.admission import KEPT_S
from tonearm.core.frame import FRAME_MS, FRAME_S, FRAMES_PER_SECOND
from tonearm.core.play_queue import SourceId
from tonearm.core.track_info import TrackInfo
from tonearm.player.clock import TIMER_EARLY_S, Clock
from tonearm.player.timers import Alarm, Timers

SLEEP_AFTER_S: Final = KEPT_S  # without listeners; until then the session also keeps its claim
GUESS_OFF_MS: Final = 60_000  # how much earlier than its estimated length a track may end
SHORTEST_SLEEP_MS: Final = 5_000  # opening a source again costs as much as a second of decoding
# How long a listener gets no audio while the source is opened, before the player counts as loading.
WAKING_LIMIT_FRAMES: Final = 2 * FRAMES_PER_SECOND
# How long nothing is sent after a pause before that; most sources are open sooner.
STANDING_LIMIT_FRAMES: Final = FRAMES_PER_SECOND // 5


@dataclass(frozen=True, slots=True)
class Awake:
    """A decoder renders, and each frame is sent."""


@dataclass(frozen=True, slots=True)
class AboutToSleep:
    """As `Awake`, while a timer runs, because the last listener may come back."""


@dataclass(frozen=True, slots=True)
class Asleep:
    """Only one timer runs, for the next event. `next_s` is the time of the next frame; None in a pause."""

    source: SourceId | None
    next_s: float | None

    def passed_frames(self, now_s: float) -> int:
        """How many frames have passed by now."""
        if self.next_s is None:
            return 0
        return max(0, math.floor((now_s + TIMER_EARLY_S - self.next_s) / FRAME_S) + 1)


@dataclass(frozen=True, slots=True)
class Waking:
    """The source is being opened again. If the position moved during the sleep, frames pass without audio; after a
    pause the position stands. `unheard_frames` counts the frames without audio: with a listener, or after a pause."""

    source: SourceId | None
    passes: bool
    unheard_frames: int = 0


SleepState: TypeAlias = Awake | AboutToSleep | Asleep | Waking


class Circumstances(NamedTuple):
    """The facts that decide whether a player may sleep. `has_audio`: the player is not waiting for audio. `has_begun`:
    a frame of the current source was sent. `position_rate`: ms of the track that pass in a ms. The source and the next
    source have to be open from `open_from_ms` on, some time before the track's end at `end_ms`. `frames_until_update`:
    the number of frames until a PlayerUpdate is due."""

    source: SourceId | None
    info: TrackInfo
    position_ms: int
    end_ms: int | None
    open_from_ms: int | None
    frames_until_update: int
    has_audio: bool
    has_begun: bool
    has_listeners: bool
    is_running: bool  # the position moves: the player is neither paused nor waiting
    is_opening_next: bool = False  # the next track's source, which a sleep would give up
    has_overlays: bool = False
    position_rate: float = 1.0

    @property
    def allow_sleep(self) -> bool:
        info = self.info
        can_come_back = self.source is not None and self.has_audio and info.is_seekable and not info.is_stream
        is_predictable = not self.is_running or self.has_begun
        is_free = not (self.has_listeners or self.has_overlays or self.is_opening_next)
        return can_come_back and is_predictable and is_free

    @property
    def wakes_at_ms(self) -> int | None:
        """The position from which the source has to be open; None without a known end."""
        if self.open_from_ms is None or self.info.is_length_exact:
            return self.open_from_ms
        return self.open_from_ms - GUESS_OFF_MS

    @property
    def is_near_end(self) -> bool:
        """Whether the source, and the next source, have to be open."""
        return self.wakes_at_ms is not None and self.position_ms >= self.wakes_at_ms

    @property
    def is_worth_sleeping(self) -> bool:
        if not self.is_running:
            return self.allow_sleep
        until_ms, least_ms = self.wakes_at_ms, SHORTEST_SLEEP_MS * self.position_rate
        return self.allow_sleep and until_ms is not None and until_ms - self.position_ms >= least_ms

    @property
    def frames_until_due(self) -> int:
        """How many frames pass in sleep before an event, or the end of the track, is due."""
        if not self.allow_sleep:
            return 0
        until_ms = self.wakes_at_ms
        return self.frames_until_update if until_ms is None else min(self.frames_until_update, self._frames(until_ms))

    @property
    def is_at_end(self) -> bool:
        """Whether no whole frame of the track is left."""
        return self.end_ms is None or not self._frames(self.end_ms)

    def frames_in_track(self, frames: int) -> int:
        """How many of the next `frames` pass before the track's end."""
        return frames if self.end_ms is None else min(frames, self._frames(self.end_ms))

    def _frames(self, until_ms: int) -> int:
        """How many whole frames pass before a position."""
        return max(0, int((until_ms - self.position_ms) / (FRAME_MS * self.position_rate)))


class Sleep:
    """One player's sleep. Its timer is `Alarm.SLEEP`. Each call gets the present circumstances."""

    def __init__(self, clock: Clock, timers: Timers, circumstances: Circumstances) -> None:
        self._clock = clock
        self._timers = timers
        self._now = circumstances
        self._behind_s = 0.0  # how far the clock's ticks are behind the frames of the last sleep
        self._quiet_since_s: float | None = None  # None before the first listener
        self._state: SleepState = Awake()

    @property
    def is_asleep(self) -> bool:
        return isinstance(self._state, Asleep)

    @property
    def is_waking(self) -> bool:
        return isinstance(self._state, Waking)

    @property
    def passes_frames(self) -> bool:
        """Whether frames pass without audio, because the player is waking."""
        return isinstance(self._state, Waking) and self._state.passes

    def follow(self, circumstances: Circumstances) -> bool:
        """To be called whenever circumstances may have changed. Returns whether the player has to wake."""
        before, self._now = self._now, circumstances
        if circumstances.has_listeners or before.has_listeners:
            self._quiet_since_s = self._clock.now_s()
        match self._state:
            case Awake():
                self._prepare()
            case Waking(source=source, passes=False) if circumstances.source == source and not circumstances.is_running:
                self._prepare()
            case AboutToSleep() if not circumstances.allow_sleep:
                self._enter(Awake())
            case Asleep(source=source) | Waking(source=source) if circumstances.source != source:
                self._enter(Awake())
                self._prepare()
            case Asleep() if not circumstances.allow_sleep:
                return True
            case Asleep(next_s=next_s) if circumstances.is_running != (next_s is not None):
                self._run(self._clock.now_s() if circumstances.is_running else None)
            case Asleep(next_s=next_s) if (
                circumstances.open_from_ms != before.open_from_ms or circumstances.position_rate != before.position_rate
            ):
                self._run(next_s)
        return False

    def take_passed_frames(self) -> int:
        """How many frames have passed in sleep since the last call."""
        state = self._state
        if not isinstance(state, Asleep) or state.next_s is None:
            return 0
        frames = state.passed_frames(self._clock.now_s())
        if frames:
            self._state = replace(state, next_s=state.next_s + frames * FRAME_S)
        return frames

    def falls_asleep(self, circumstances: Circumstances, next_tick_s: float) -> bool:
        """Handles the timer of an awake player. Returns whether the player sleeps from now on."""
        self._now = circumstances
        self._enter(Awake())
        if not circumstances.is_worth_sleeping:
            return False
        self._enter(Asleep(self._now.source, None))
        self._run(next_tick_s - self._behind_s if self._now.is_running else None)
        self._behind_s = 0.0
        return True

    def sleeps_on(self, circumstances: Circumstances) -> bool:
        """Handles the timer of a sleeping player, after the due frames have passed. Returns whether the player sleeps
        on; False if it may not sleep any more, or if the end of the track is near."""
        self._now = circumstances
        if not circumstances.allow_sleep or circumstances.is_near_end:
            return False
        if isinstance(self._state, Asleep) and self._state.next_s is not None:
            self._run(self._state.next_s)
        return True

    def wake(self) -> float | None:
        """Wakes the player. Returns the time of its next frame; None in a pause."""
        next_s = self._state.next_s if isinstance(self._state, Asleep) else None
        self._enter(Waking(self._now.source, passes=next_s is not None))
        return next_s

    def woke(self, next_s: float, next_tick_s: float) -> None:
        """Notes that the player ticks again: the frame that was due at `next_s` is sent at `next_tick_s`."""
        self._behind_s = next_tick_s - next_s

    def may_lack_frame(self, circumstances: Circumstances) -> bool:
        """Whether a tick may be without audio, because the player is waking."""
        if not isinstance(self._state, Waking):
            return False
        passes = self._state.passes
        unheard_frames = self._state.unheard_frames + (circumstances.has_listeners or not passes)
        limit_frames = WAKING_LIMIT_FRAMES if passes else STANDING_LIMIT_FRAMES
        may_pass = unheard_frames <= limit_frames and not circumstances.is_at_end
        self._state = replace(self._state, unheard_frames=unheard_frames) if may_pass else Awake()
        return may_pass

    def woken(self, circumstances: Circumstances) -> None:
        """To be called when the first audio after a sleep has come."""
        self._now = circumstances
        self._enter(Awake())
        self._prepare()

    def stop(self) -> None:
        """Stops the passing of frames, because the player is deleted."""
        self._enter(Awake())

    def _prepare(self) -> None:
        if self._now.is_worth_sleeping:
            self._enter(AboutToSleep())
            quiet_s = math.inf if self._quiet_since_s is None else self._clock.now_s() - self._quiet_since_s
            self._timers.start(Alarm.SLEEP, max(0.0, SLEEP_AFTER_S - quiet_s))

    def _run(self, next_s: float | None) -> None:
        """Lets frames pass from `next_s` on; with None no frames pass, as in a pause."""
        self._enter(Asleep(self._now.source, next_s))
        if next_s is not None:
            due_s = next_s + self._now.frames_until_due * FRAME_S
            self._timers.start(Alarm.SLEEP, max(0.0, due_s - self._clock.now_s()))

    def _enter(self, state: SleepState) -> None:
        self._timers.follow(Alarm.SLEEP, None)
        self._state = state

"""Sleep: a player that nobody listens to goes on by the clock alone, without a decoder and without ticks.

A player sleeps while its source can be sought and has an exact length: then its position and the end of the track
follow from the time. Near that end, and when a listener comes, the player wakes: its source is opened again at the
player's position. Until audio arrives the position moves on without it, so that a listener who comes does not change
when the track ends.

  AWAKE           a decoder renders, and each frame is sent
  ABOUT_TO_SLEEP  as AWAKE, while a timer runs: the listener who left last may come back
  ASLEEP          one timer for the next event, and nothing else
  WAKING          the source is being opened again; frames pass without audio
"""

import logging
import math
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol
from weakref import ref

from tonearm.core.frame import FRAME_MS, FRAME_S, FRAMES_PER_SECOND
from tonearm.core.play_queue import SourceId
from tonearm.core.track_info import TrackInfo
from tonearm.player.clock import TIMER_EARLY_S, Clock, Ticking
from tonearm.player.timers import CallLater, Cancellable

log = logging.getLogger(__name__)

SLEEP_AFTER_S: Final = 2.0  # without listeners: a listener who has left may come back at once
SHORTEST_SLEEP_MS: Final = 5_000  # opening a source again costs as much as a second of decoding
# For how long a listener hears nothing while the source is opened, before the player counts as loading.
WAKING_LIMIT_FRAMES: Final = 2 * FRAMES_PER_SECOND


class SleepState(Enum):
    AWAKE = "awake"
    ABOUT_TO_SLEEP = "about to sleep"
    ASLEEP = "asleep"
    WAKING = "waking"


class Circumstances(NamedTuple):
    """What decides whether a player may sleep. `has_sounded`: the current track has begun to sound and is not waiting
    for audio. `is_stretched`: the speed is changed, so that the position does not follow from the time. The source and
    the next source have to be open from `open_from_ms` on, some time before the track's end at `end_ms`."""

    source: SourceId | None
    info: TrackInfo
    end_ms: int | None
    open_from_ms: int | None
    has_sounded: bool
    has_listeners: bool
    is_running: bool  # the position moves: the player is neither paused nor waiting
    has_overlays: bool = False
    is_stretched: bool = False

    @property
    def allow_sleep(self) -> bool:
        info = self.info
        is_predictable = info.is_seekable and info.is_length_exact and not info.is_stream
        is_free = not (self.has_listeners or self.has_overlays or self.is_stretched)
        return self.source is not None and self.has_sounded and is_predictable and is_free

    def is_near_end(self, position_ms: int) -> bool:
        """Whether the source, and the next source, have to be open."""
        return self.open_from_ms is not None and position_ms >= self.open_from_ms

    def is_worth_sleeping(self, position_ms: int) -> bool:
        until_ms = self.open_from_ms
        return self.allow_sleep and until_ms is not None and until_ms - position_ms >= SHORTEST_SLEEP_MS


class FrameTimes:
    """The times of frames that are not sent: the first frame at `first_s`, and the others 20 ms after each other."""

    def __init__(self, first_s: float) -> None:
        self._next_s = first_s

    def take_due(self, now_s: float) -> int:
        """How many frames have passed since the last call."""
        frames = max(0, math.floor((now_s + TIMER_EARLY_S - self._next_s) / FRAME_S) + 1)
        self._next_s += frames * FRAME_S
        return frames

    def deadline_s(self, frames: int = 0) -> float:
        """When the next frame passes, or the frame that is `frames` behind it."""
        return self._next_s + frames * FRAME_S


class Sleeper(Ticking, Protocol):
    """A player, as far as its sleep is concerned."""

    @property
    def position_ms(self) -> int: ...

    @property
    def frames_until_update(self) -> int:
        """How many frames may pass before the frame with the next PlayerUpdate."""

    def pass_frames(self, frames: int) -> None:
        """Moves the position on by `frames` and emits their events, as if they had been sent."""

    def release_session(self) -> None:
        """Closes the session in the decoder and stops ticking."""

    def reopen_session(self) -> None:
        """Opens a session with the sources again, at the player's position, and ticks."""

    def went_wrong(self) -> None:
        """An error in the node's code was met and logged."""


class Sleep:
    """One player's sleep. `follow` is to be called whenever circumstances may have changed."""

    def __init__(self, player: Sleeper, clock: Clock, call_later: CallLater, circumstances: Circumstances) -> None:
        self._owner = ref(player)
        self._clock = clock
        self._call_later = call_later
        self._now = circumstances
        self._source: SourceId | None = None  # the current source, while asleep or waking
        self._times: FrameTimes | None = None  # while asleep and running
        self._timer: Cancellable | None = None
        self._behind_s = 0.0  # how much later the clock's ticks are than `_times` was in the last sleep
        self._unheard_frames = 0  # passed without audio while a listener waited
        self._quiet_since_s: float | None = None  # None: nobody has listened yet
        self.state = SleepState.AWAKE

    @property
    def _player(self) -> Sleeper:
        player = self._owner()
        assert player is not None, "the player is gone, and its sleep was not stopped"
        return player

    @property
    def is_asleep(self) -> bool:
        return self.state is SleepState.ASLEEP

    @property
    def is_waking(self) -> bool:
        return self.state is SleepState.WAKING

    def follow(self, circumstances: Circumstances) -> None:
        before, self._now = self._now, circumstances
        if circumstances.has_listeners or before.has_listeners:
            self._quiet_since_s = self._clock.now_s()
        match self.state:
            case SleepState.AWAKE:
                self._prepare()
            case SleepState.ABOUT_TO_SLEEP if not circumstances.allow_sleep:
                self._enter(SleepState.AWAKE)
            case SleepState.ASLEEP if circumstances.source != self._source:
                self._enter(SleepState.AWAKE)
                self._prepare()
            case SleepState.ASLEEP if not circumstances.allow_sleep:
                self._wake()
            case SleepState.ASLEEP if circumstances.is_running != (self._times is not None):
                self._run(self._clock.now_s() if circumstances.is_running else None)
            case SleepState.ASLEEP if self._times is not None and circumstances.open_from_ms != before.open_from_ms:
                self._run(self._times.deadline_s())
            case SleepState.WAKING if circumstances.source != self._source:
                self._enter(SleepState.AWAKE)
                self._prepare()

    def catch_up(self) -> None:
        """Moves the position on by the frames that are due by now. To be called before anything is done with a
        player."""
        if self._times is not None:
            frames = self._times.take_due(self._clock.now_s())
            if frames:
                self._player.pass_frames(frames)

    def may_pass_frame(self) -> bool:
        """Whether a frame may pass without audio, because the player is waking."""
        if self.state is not SleepState.WAKING:
            return False
        self._unheard_frames += self._now.has_listeners
        is_at_end = self._now.end_ms is None or self._player.position_ms + FRAME_MS > self._now.end_ms
        if self._unheard_frames <= WAKING_LIMIT_FRAMES and not is_at_end:
            return True
        self._enter(SleepState.AWAKE)
        return False

    def woken(self) -> None:
        """The first audio after a sleep has come."""
        self._enter(SleepState.AWAKE)
        self._prepare()

    def stop(self) -> None:
        """Cancels the timer, when the player is deleted."""
        self._enter(SleepState.AWAKE)

    def _prepare(self) -> None:
        if self._now.is_worth_sleeping(self._player.position_ms):
            self._enter(SleepState.ABOUT_TO_SLEEP)
            quiet_s = math.inf if self._quiet_since_s is None else self._clock.now_s() - self._quiet_since_s
            delay_s = max(0.0, SLEEP_AFTER_S - quiet_s)
            self._timer = self._call_later(delay_s, lambda: self._guarded(self._fall_asleep))

    def _fall_asleep(self) -> None:
        self._enter(SleepState.AWAKE)
        if self._now.is_worth_sleeping(self._player.position_ms):
            next_s = self._clock.next_deadline_s(self._player)
            self._enter(SleepState.ASLEEP)
            self._source = self._now.source
            self._player.release_session()
            self._run(next_s - self._behind_s if self._now.is_running else None)
            self._behind_s = 0.0

    def _run(self, first_s: float | None) -> None:
        """Lets frames pass from `first_s` on; with None no frames pass, as in a pause."""
        self._cancel()
        self._times = None if first_s is None else FrameTimes(first_s)
        if self._times is not None:
            due_s = self._times.deadline_s(self._frames_until_due())
            self._timer = self._call_later(max(0.0, due_s - self._clock.now_s()), lambda: self._guarded(self._ring))

    def _frames_until_due(self) -> int:
        frames, open_from_ms = self._player.frames_until_update, self._now.open_from_ms
        if not self._now.allow_sleep:
            return 0
        if open_from_ms is None:
            return frames
        return min(frames, max(0, (open_from_ms - self._player.position_ms) // FRAME_MS))

    def _ring(self) -> None:
        """The timer's call: an event is due, or the end of the track is near."""
        self.catch_up()
        if not self._now.allow_sleep or self._now.is_near_end(self._player.position_ms):
            self._wake()
        elif self._times is not None:
            self._run(self._times.deadline_s())

    def _guarded(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception:
            log.exception("a player could not fall asleep, or what fell due in its sleep failed")
            self._player.went_wrong()

    def _wake(self) -> None:
        self.catch_up()
        times = self._times
        self._enter(SleepState.WAKING)
        self._unheard_frames = 0
        if times is not None:
            self._clock.resume_at(self._player, times.deadline_s())
        self._player.reopen_session()
        if times is not None:
            self._behind_s = self._clock.next_deadline_s(self._player) - times.deadline_s()

    def _enter(self, state: SleepState) -> None:
        self._cancel()
        if state is not SleepState.WAKING:
            self._source = None
        self._times = None
        self.state = state

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

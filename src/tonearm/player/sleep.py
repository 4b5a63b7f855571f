"""Sleep: a player that nobody listens to goes on by the clock alone, without a decoder and without ticks.

It sleeps where its source can be sought and the length is exact, so that it is known without a look where the player
is and when the track ends. Near that end, and when a listener comes, the source is opened again at the sample where the
player is. Until its audio arrives frames pass without any, so that a listener who comes shifts nothing in time.

  AWAKE           a decoder renders, and each frame is sent
  ABOUT_TO_SLEEP  the same, and nothing speaks against sleep; a listener may be about to come back
  ASLEEP          one timer for what falls due next, nothing else
  WAKING          the source is being opened again; the frames that it is too late for pass without audio
"""

import logging
import math
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol

from tonearm.core.frame import FRAME_MS, FRAME_S, FRAMES_PER_SECOND
from tonearm.core.play_queue import SourceId
from tonearm.core.track_info import TrackInfo
from tonearm.player.clock import TIMER_EARLY_S, Ticking
from tonearm.player.timers import CallLater, Cancellable

log = logging.getLogger(__name__)

SLEEP_AFTER_S: Final = 2.0  # without listeners: one who has left may come back at once
SHORTEST_SLEEP_MS: Final = 5_000  # opening a source again costs as much as a second of decoding
# How long somebody listens to nothing while the source is opened, before the player counts as loading. One that had
# not slept would have had as much decoded ahead.
WAKING_LIMIT_FRAMES: Final = 2 * FRAMES_PER_SECOND


class SleepState(Enum):
    AWAKE = "awake"
    ABOUT_TO_SLEEP = "about to sleep"
    ASLEEP = "asleep"
    WAKING = "waking"


class Circumstances(NamedTuple):
    """What decides whether a player may sleep. `has_sounded`: the current track has, and does not stand still for lack
    of audio. `has_overlays`: something sounds over the track. `is_stretched`: a second of the file is not heard in a
    second, so that its position does not go by frames. From `open_from_ms` on, some time before the track's end
    at `end_ms`, its source and the next one have to be open."""

    source: SourceId | None
    info: TrackInfo
    end_ms: int | None
    open_from_ms: int | None
    has_sounded: bool
    has_listeners: bool
    is_running: bool  # the position moves: it is neither paused nor waiting
    has_overlays: bool = False
    is_stretched: bool = False

    @property
    def allow_sleep(self) -> bool:
        info = self.info
        is_predictable = info.is_seekable and info.is_length_exact and not info.is_stream
        is_free = not (self.has_listeners or self.has_overlays or self.is_stretched)
        return self.source is not None and self.has_sounded and is_predictable and is_free

    def is_near_end(self, position_ms: int) -> bool:
        """Whether the source, and the next one, have to be open."""
        return self.open_from_ms is not None and position_ms >= self.open_from_ms

    def is_worth_sleeping(self, position_ms: int) -> bool:
        until_ms = self.open_from_ms
        return self.allow_sleep and until_ms is not None and until_ms - position_ms >= SHORTEST_SLEEP_MS


class FrameTimes:
    """When frames pass that nobody sends: the first one at `first_s`, and one every 20 ms from then on."""

    def __init__(self, first_s: float) -> None:
        self._next_s = first_s

    def take_due(self, now_s: float) -> int:
        """How many frames have passed since the last call."""
        frames = max(0, math.floor((now_s + TIMER_EARLY_S - self._next_s) / FRAME_S) + 1)
        self._next_s += frames * FRAME_S
        return frames

    def deadline_s(self, frames: int = 0) -> float:
        """When the next frame passes, or one that is `frames` behind it."""
        return self._next_s + frames * FRAME_S


class SleepClock(Protocol):
    """What sleep needs of the clock."""

    def now_s(self) -> float: ...

    def next_deadline_s(self, member: Ticking) -> float: ...

    def resume_at(self, member: Ticking, deadline_s: float) -> None: ...


class Sleeper(Ticking, Protocol):
    """A player, as far as its sleep is concerned."""

    @property
    def position_ms(self) -> int: ...

    @property
    def frames_until_update(self) -> int:
        """How many frames may pass before one with which something falls due that has nothing to do with tracks."""
        ...

    def pass_frames(self, frames: int) -> None:
        """Moves on by so many frames, with all that falls due, as if they had been sent."""
        ...

    def release_session(self) -> None:
        """Gives the decoder up and stops ticking."""
        ...

    def reopen_session(self) -> None:
        """Has the sources opened again where the player is, and ticks."""
        ...

    def went_wrong(self) -> None:
        """An error of the node's own has been logged."""
        ...


class Sleep:
    """One player's sleep. `follow` is to be called whenever circumstances may have changed."""

    def __init__(self, player: Sleeper, clock: SleepClock, call_later: CallLater, circumstances: Circumstances) -> None:
        self._player = player
        self._clock = clock
        self._call_later = call_later
        self._now = circumstances
        self._source: SourceId | None = None  # the one that sleeps, or is being opened again
        self._times: FrameTimes | None = None  # while asleep and running
        self._timer: Cancellable | None = None
        self._behind_s = 0.0  # how much later than frames pass by `_times` the clock's ticks were since the last sleep
        self._unheard_frames = 0  # that passed while waking, with a listener
        self._quiet_since_s: float | None = None  # None: nobody has listened yet
        self.state = SleepState.AWAKE

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
        """Lets the frames pass that are due by now. To be called before anything is done with a player."""
        if self._times is not None:
            frames = self._times.take_due(self._clock.now_s())
            if frames:
                self._player.pass_frames(frames)

    def may_pass_frame(self) -> bool:
        """Whether a frame for which there is no audio passes, because the player has slept."""
        if self.state is not SleepState.WAKING:
            return False
        self._unheard_frames += self._now.has_listeners
        is_at_end = self._now.end_ms is None or self._player.position_ms + FRAME_MS > self._now.end_ms
        if self._unheard_frames <= WAKING_LIMIT_FRAMES and not is_at_end:
            return True
        self._enter(SleepState.AWAKE)
        return False

    def woken(self) -> None:
        """The first audio has come since the player slept."""
        self._enter(SleepState.AWAKE)
        self._prepare()

    def stop(self) -> None:
        """Ends it all, with the player."""
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
        """Lets frames pass from `first_s` on; None: none pass."""
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
        """Something falls due."""
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

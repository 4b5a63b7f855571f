"""One player of a node. Its methods send requests. Its attributes show a copy of the state, which events keep up to
date.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from types import UnionType
from typing import Any, Literal, Self, TypeVar, overload
from urllib.parse import quote

from tonearm.client.audio import AudioFormat, AudioStream
from tonearm.client.connection import Connection
from tonearm.client.errors import NotFound, PlayerNotFound, TonearmError
from tonearm.client.events import Event, EventStream, Mirror, Place, PlayerGone, QueueEnd, event_kind
from tonearm.client.filters import filter_changes, preset_body
from tonearm.client.tracks import (
    HISTORY_MODEL,
    PLAYER_MODEL,
    Metadata,
    Playable,
    Queue,
    Track,
    loop_name,
    playable_body,
    read,
    track_id_of,
    whole_ms,
)
from tonearm.client.voice import VoiceLink
from tonearm.core.events import PlayerState as State
from tonearm.core.play_queue import LoopMode
from tonearm.protocol import events
from tonearm.protocol import replies as protocol
from tonearm.protocol.replies import PlayedTrack, QueuedTrackDetails, Voice

log = logging.getLogger("tonearm.client")

E = TypeVar("E")
F = TypeVar("F")
Callback = Callable[[E], Awaitable[None] | None]


class Player:
    """A player by its id. `Node.create_player` and `refresh` load the state, and events keep it up to date from then
    on.

    A method returns when the node has done the request. The attributes change with the event, a moment later.
    """

    def __init__(self, connection: Connection, player_id: str) -> None:
        self._connection = connection
        self._path = f"/v0/players/{quote(player_id, safe='')}"
        self._mirror = Mirror()
        self._callbacks: list[tuple[type[Any] | UnionType, Callback[Any]]] = []
        self._following: asyncio.Task[None] | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self.id = player_id
        self.queue = Queue(connection, self._path, lambda: self._mirror.queue_length)

    def __repr__(self) -> str:
        return f"<Player {self.id} {self.state.value}>"

    @property
    def current(self) -> Track | None:
        """The selected track, even when the player is idle. None before the first track."""
        return self._mirror.track

    @property
    def track_id(self) -> str:
        """The id of the selected track. Empty before the first track."""
        return self._mirror.track_id

    @property
    def state(self) -> State:
        """`playing`, `loading`, `idle` or `failed`. Whether the player is paused is separate: see `paused`."""
        return self._mirror.state

    @property
    def paused(self) -> bool:
        """Whether the player is paused, in any state."""
        return self._mirror.paused

    @property
    def position(self) -> int:
        """The position in the file in ms. It advances by itself between two events."""
        return self._mirror.position_ms

    @property
    def volume(self) -> float:
        """The volume as a linear factor: 1 leaves the sound unchanged."""
        return self._mirror.volume

    @property
    def loop(self) -> LoopMode:
        """What is repeated: nothing, the track, or the whole queue."""
        return self._mirror.loop

    @property
    def metadata(self) -> Any:
        """The JSON value stored with the player."""
        return self._mirror.metadata

    @property
    def listeners(self) -> int:
        """How many clients listen to the player's audio."""
        return self._mirror.listeners

    @property
    def voice_status(self) -> Voice | None:
        """The player's voice in a Discord channel. None without one."""
        return self._mirror.voice

    async def refresh(self) -> Self:
        """Loads the whole state, and follows the player's events from now on. Raises `PlayerNotFound`."""
        state = await self._asked()
        self._follow_from(Place(state.life, state.seq))
        return self

    async def created(self) -> Self:
        """As `refresh`, for a new player: follows its events from the first one."""
        state = await self._asked()
        self._follow_from(Place(state.life, 0))
        return self

    def take_state(self, state: protocol.Player) -> None:
        """Sets the state from an answer of the node, once."""
        self._mirror.take_state(state)

    async def take_event(self, event: Event) -> None:
        """Updates the state from an event of `Node.events`, for a player that has no event socket of its own."""
        if self._following is not None and not self._following.done():
            return
        if isinstance(event, events.PlayerCreate | events.PlayerMoved):  # They do not have its state.
            with suppress(TonearmError):
                await self._asked()
        else:
            self._mirror.take(event)

    async def play(self, track: Playable | None = None, *, start_ms: int = 0, metadata: Metadata = None) -> str | None:
        """Plays `track` now, instead of the current track, and returns its id. A paused player stays paused. Without a
        track: resumes."""
        if track is None:
            await self._send("POST", "play")
            return None
        answer = await self._send("PUT", "track", playable_body(track, metadata, start_ms))
        return str(answer["trackId"])

    async def pause(self) -> None:
        """Pauses until `resume`. The position is kept."""
        await self._send("POST", "pause")

    async def resume(self) -> None:
        """Continues after a pause, or plays the last track again."""
        await self._send("POST", "play")

    async def stop(self) -> None:
        """Ends the track. The queue stays."""
        await self._send("DELETE", "track")

    async def skip(self, *, to: str | QueuedTrackDetails | None = None) -> None:
        """Goes to the next track, or to a given track of the queue. The tracks before that one are removed from the
        queue."""
        await self._send("POST", "skip", None if to is None else {"to": track_id_of(to)})

    async def previous(self) -> None:
        """Goes back to the track that was played before. Raises `Conflict` if there is none."""
        await self._send("POST", "previous")

    async def seek(self, position_ms: int) -> None:
        """Goes to a position in the track. Raises `Conflict` for a live stream, or a track that cannot be sought."""
        await self._send("PATCH", "position", {"position": whole_ms(position_ms)})

    async def seek_by(self, offset_ms: int) -> None:
        """Moves forward by `offset_ms`, or back if it is negative."""
        await self._send("PATCH", "position", {"offset": whole_ms(offset_ms)})

    async def set_volume(self, volume: float) -> None:
        """Sets the volume as a linear factor, at most 5: 1 leaves the sound unchanged."""
        await self._send("PATCH", "filters", {"volume": volume})

    async def set_loop(self, mode: LoopMode | Literal["none", "track", "queue"]) -> None:
        """Sets what is repeated: nothing, the track, or the whole queue."""
        await self._send("PATCH", "loop", {"mode": loop_name(mode)})

    async def set_filters(self, preset: str | None = None, /, **changes: Any) -> None:
        """Sets filters. A preset from `PRESETS` replaces all filters. Keyword arguments change single ones:
        `volume=0.5`, `eq={0: 6.0}`, `timescale={"speed": 1.2}`, `low_pass=None`, `reset=True`. With both, the changes
        apply to the preset.

        Raises `ValueError` for an unknown preset. Raises `BadRequest`, which names the field, for an invalid filter.
        """
        body = {} if preset is None else preset_body(preset)
        await self._send("PATCH", "filters", {**body, **filter_changes(changes)})

    async def set_crossfade(self, duration_ms: int, *, curve: str = "equalPower", on_skip: bool = False) -> None:
        """Sets the length of the crossfade between tracks. With 0, tracks follow one another without a gap."""
        body = {"durationMs": whole_ms(duration_ms), "curve": curve, "onSkip": on_skip}
        await self._send("PATCH", "crossfade", body)

    async def set_metadata(self, value: Metadata, *, merge: bool = True) -> None:
        """Stores a JSON value with the player: merged into the stored one (RFC 7396), or in its place with
        `merge=False`."""
        await self._send("PATCH", "metadata", {"value": value, "merge": merge})

    async def overlay(self, track: Playable, **settings: float) -> str:
        """Plays a sound over the music, with `volume`, `duck_db`, `fade_ms`, `start_ms` and `end_ms`. Returns the
        overlay's id."""
        answer = await self._send("POST", "overlays", {**playable_body(track), **filter_changes(settings)})
        return str(answer["overlayId"])

    async def stop_overlay(self, overlay_id: str) -> None:
        """Ends an overlay, by the id that `overlay` returned."""
        await self._send("DELETE", f"overlays/{quote(overlay_id, safe='')}")

    def join_voice(self, guild_id: int | str, user_id: int | str, *, bitrate: int | None = None) -> VoiceLink:
        """Makes the node play in a Discord voice channel for the bot `user_id`. Pass the events of the bot's gateway to
        the returned link, and ask the gateway to join. `bitrate` is the channel's, in bit/s."""
        return VoiceLink(self._send, guild_id, user_id, bitrate)

    async def history(self) -> list[PlayedTrack]:
        """The tracks that were played, newest first, at most 50."""
        return read(HISTORY_MODEL, await self._send("GET", "history"))

    async def artwork(self) -> tuple[bytes, str] | None:
        """The picture in the current file, and its media type. None if there is none."""
        try:
            return await self._connection.content(f"{self._path}/artwork")
        except NotFound as error:
            if isinstance(error, PlayerNotFound):
                raise
            return None

    async def delete(self) -> None:
        """Deletes the player and ends its streams and sockets."""
        await self._connection.request("DELETE", self._path)
        await self.unfollow()

    def audio(
        self,
        audio_format: AudioFormat = "pcm",
        *,
        bitrate: int | None = None,
        max_latency_ms: int = 200,
        waits_s: float = 0.0,
    ) -> AudioStream:
        """The player's audio, frame by frame: see `AudioStream`."""
        return AudioStream(
            self._connection, self.id, audio_format, bitrate=bitrate, max_latency_ms=max_latency_ms, waits_s=waits_s
        )

    def stream_url(self, kind: Literal["mp3", "ogg", "wav"] = "mp3") -> str:
        """The address of an endless stream, for media players and browsers."""
        return f"{self._connection.url}{self._path}/stream.{kind}"

    @overload
    def events(self, kind: type[E], /, *, since: Place | None = None) -> AsyncGenerator[E, None]: ...

    @overload
    def events(
        self, kind: type[E], other: type[F], /, *, since: Place | None = None
    ) -> AsyncGenerator[E | F, None]: ...

    @overload
    def events(self, *kinds: type[Any], since: Place | None = None) -> AsyncGenerator[Event, None]: ...

    @overload
    def events(self, *kinds: str, since: Place | None = None) -> AsyncGenerator[Event, None]: ...

    async def events(self, *kinds: type[Any] | str, since: Place | None = None) -> AsyncGenerator[Any, None]:
        """The events of the given kinds, classes or their names, until the player is deleted. Without kinds: all
        events. The stream continues after restarts of the node: see `EventStream`. Each loop has its own socket, so a
        slow loop delays no other.

        The start of the loop raises errors: `PlayerNotFound` and other `ApiError`s, and `ConnectError`. Later it raises
        only `Unauthorized`, when the node restarted with another password.
        """
        wanted = tuple(map(event_kind, kinds or (object,)))
        stream = EventStream(self._connection, self.id, since)
        await stream.connect()
        async with aclosing(stream.received()) as found:
            async for event in found:
                if any(isinstance(event, kind) for kind in wanted):
                    yield event

    @overload
    def on(self, kind: type[E], callback: Callback[E]) -> Callable[[], None]: ...

    @overload
    def on(self, kind: str, callback: Callback[Any]) -> Callable[[], None]: ...

    def on(self, kind: type[Any] | str, callback: Callback[Any]) -> Callable[[], None]:
        """Calls `callback` with each event of this kind, a class or its name, from now on. Call the returned function
        to stop. An error in `callback` is logged and stops nothing. Raises `TypeError` if `kind` is not an event."""
        if not callable(callback):
            raise TypeError(f"{callback!r} cannot be called; give a function that takes the event.")
        entry = (event_kind(kind), callback)
        self._callbacks.append(entry)
        self._follow_from(None)

        def off() -> None:
            if entry in self._callbacks:
                self._callbacks.remove(entry)

        return off

    @overload
    async def wait_for(
        self, kind: type[E], *, check: Callable[[E], bool] | None = None, timeout_s: float | None = None
    ) -> E: ...

    @overload
    async def wait_for(
        self, kind: str, *, check: Callable[[Any], bool] | None = None, timeout_s: float | None = None
    ) -> Any: ...

    async def wait_for(
        self, kind: type[Any] | str, *, check: Callable[[Any], bool] | None = None, timeout_s: float | None = None
    ) -> Any:
        """The next event of this kind for which `check` is true. Raises `TimeoutError`, `PlayerNotFound` if the player
        is gone first, any error that ends the events, such as `Unauthorized`, and any error of `check`."""
        wanted = event_kind(kind)
        came: asyncio.Queue[Any] = asyncio.Queue()
        off = self.on(object, came.put_nowait)
        following = self._following
        assert following is not None

        def end(_: object) -> None:
            came.put_nowait(None)

        following.add_done_callback(end)
        try:
            async with asyncio.timeout(timeout_s) as limit:
                while (event := await came.get()) is not None:
                    if isinstance(event, wanted) and (check is None or check(event)):
                        return event
                    if isinstance(event, PlayerGone):
                        raise PlayerNotFound(self.id)
            error = None if following.cancelled() else following.exception()
            raise error or TonearmError(f"The events of player {self.id!r} were closed.")
        except TimeoutError:
            if not limit.expired():
                raise
            shown = kind if isinstance(kind, str) else getattr(kind, "__name__", kind)
            raise TimeoutError(f"No {shown} of player {self.id!r} came within {timeout_s:g} s.") from None
        finally:
            following.remove_done_callback(end)
            off()

    def refill(self, more: Callable[[Self], Awaitable[Sequence[Playable]]], *, below: int = 2) -> Callable[[], None]:
        """Calls `more` whenever fewer than `below` tracks wait, and adds the tracks that it returns to the queue. There
        is only one call at a time. Call the returned function to stop."""
        asking, looks_again = asyncio.Lock(), True

        async def look(event: object) -> None:
            nonlocal looks_again
            if isinstance(event, QueueEnd) and self.state is State.FAILED:
                return  # more of what cannot be played would be asked for without end
            looks_again = True
            if asking.locked():
                return
            async with asking:
                while looks_again and len(self.queue) < below:
                    tracks = await more(self)
                    looks_again = False  # what comes from now on may come after the change of the queue
                    if tracks:
                        await self.queue.put(*tracks)

        offs = [self.on(kind, look) for kind in (events.QueueUpdate, events.TrackStart, events.PlayerState, QueueEnd)]
        if self._mirror.is_known:  # else the events begin with the state
            self._call(look, None)
        return lambda: _call_all(offs)

    def on_inactive(self, after_s: float, callback: Callable[[Self], Awaitable[None] | None]) -> Callable[[], None]:
        """Calls `callback` when the player has had nothing to play, or no listeners, for `after_s`. Call the returned
        function to stop. It is not called for a deleted player."""
        timer: asyncio.TimerHandle | None = None

        def fire() -> None:
            nonlocal timer
            timer = None
            if self._following is not None and not self._following.done():  # else it is deleted, or another's
                self._call(callback, self)

        def look(_: object) -> None:
            nonlocal timer
            is_active = self.state in (State.PLAYING, State.LOADING) and self.listeners > 0
            if is_active and timer is not None:
                timer.cancel()
                timer = None
            elif not is_active and timer is None:
                timer = asyncio.get_running_loop().call_later(after_s, fire)

        offs = [self.on(kind, look) for kind in (events.PlayerState, events.PlayerUpdate, events.ListenersChange)]
        look(None)

        def off() -> None:
            if timer is not None:
                timer.cancel()
            _call_all(offs)

        return off

    def _follow_from(self, place: Place | None) -> None:
        """Starts to update the state and call the callbacks, unless that has started already."""
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._follow(place), name=f"tonearm player {self.id}")
            self._following.add_done_callback(self._log_end)

    def unfollow(self) -> Awaitable[object]:
        """Stops updating the state and calling the callbacks. Await the result, which is there when they have ended."""
        own, followed = asyncio.current_task(), (self._following, *self._calls)
        # One that has ended may be of an event loop that is closed.
        tasks = [task for task in followed if task is not None and task is not own and not task.done()]
        for task in tasks:
            task.cancel()
        return asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, place: Place | None) -> None:
        async for event in EventStream(self._connection, self.id, place).received():
            self._take(event)

    def _log_end(self, following: asyncio.Task[None]) -> None:
        error = None if following.cancelled() else following.exception()
        if isinstance(error, Exception):
            own = None if isinstance(error, TonearmError) else error
            log.error("The events of player %s ended: %s", self.id, error, exc_info=own)

    def _take(self, event: Event) -> None:
        self._mirror.take(event)
        for kind, callback in tuple(self._callbacks):
            if isinstance(event, kind):
                self._call(callback, event)

    def _call(self, callback: Callback[Any], argument: object) -> None:
        try:
            result = callback(argument)
        except Exception:
            log.exception("A callback of player %s failed.", self.id)
            return
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(self._awaited(result))
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def _awaited(self, result: Awaitable[None]) -> None:
        try:
            await result
        except Exception:
            log.exception("A callback of player %s failed.", self.id)

    async def _asked(self) -> protocol.Player:
        """Requests the whole state and stores it."""
        state = read(PLAYER_MODEL, await self._connection.request("GET", self._path))
        self._mirror.take_state(state)
        return state

    async def _send(self, method: str, what: str, body: Mapping[str, Any] | None = None) -> Any:
        return await self._connection.request(method, f"{self._path}/{what}", body)


def _call_all(offs: Iterable[Callable[[], None]]) -> None:
    for off in offs:
        off()

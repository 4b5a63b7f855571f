"""One player of a node: its verbs are requests, its attributes are a mirror that its events keep."""

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
    """A player by its id. `Node.create_player` and `refresh` fill the mirror and keep it from then on.

    A verb returns when the node has done it; the mirror follows with the event, a moment later.
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
        """The selected track, also of an idle player; None before the first."""
        return self._mirror.track

    @property
    def track_id(self) -> str:
        """Of the selected track; empty before the first."""
        return self._mirror.track_id

    @property
    def state(self) -> State:
        """`playing`, `loading`, `idle` or `failed`; a pause stands beside it."""
        return self._mirror.state

    @property
    def paused(self) -> bool:
        """Whether it is paused, whatever its state."""
        return self._mirror.paused

    @property
    def position(self) -> int:
        """In the file, in ms, going on by itself between two events."""
        return self._mirror.position_ms

    @property
    def volume(self) -> float:
        """Linear: 1 changes nothing."""
        return self._mirror.volume

    @property
    def loop(self) -> LoopMode:
        """What comes again at its end."""
        return self._mirror.loop

    @property
    def metadata(self) -> Any:
        """What was noted with it, any JSON."""
        return self._mirror.metadata

    @property
    def listeners(self) -> int:
        """How many listen to its audio."""
        return self._mirror.listeners

    @property
    def voice_status(self) -> Voice | None:
        """Its voice in a Discord channel; None without one."""
        return self._mirror.voice

    async def refresh(self) -> Self:
        """Asks for the whole state and follows it from now on. Raises `PlayerNotFound`."""
        state = await self._asked()
        self._follow_from(Place(state.life, state.seq))
        return self

    async def created(self) -> Self:
        """As `refresh`, of a new player: its events are followed from the first one on."""
        state = await self._asked()
        self._follow_from(Place(state.life, 0))
        return self

    def take_state(self, state: protocol.Player) -> None:
        """Fills the mirror, once, with a state that was asked for."""
        self._mirror.take_state(state)

    async def take_event(self, event: Event) -> None:
        """Keeps the mirror of a player that is not followed on a socket of its own: `Node.events` has its events."""
        if self._following is not None and not self._following.done():
            return
        if isinstance(event, events.PlayerCreate | events.PlayerMoved):  # no event tells how it began
            with suppress(TonearmError):
                await self._asked()
        else:
            self._mirror.take(event)

    async def play(self, track: Playable | None = None, *, start_ms: int = 0, metadata: Metadata = None) -> str | None:
        """Plays `track` now, in place of the current one, and returns its id. Without one: goes on."""
        if track is None:
            await self._send("POST", "play")
            return None
        answer = await self._send("PUT", "track", playable_body(track, metadata, start_ms))
        return str(answer["trackId"])

    async def pause(self) -> None:
        """Stands still until `resume`; nothing is lost."""
        await self._send("POST", "pause")

    async def resume(self) -> None:
        """Goes on after a pause, or plays the last track again."""
        await self._send("POST", "play")

    async def stop(self) -> None:
        """Ends the track; the queue stays."""
        await self._send("DELETE", "track")

    async def skip(self, *, to: str | QueuedTrackDetails | None = None) -> None:
        """To the next track, or to one that waits; what lies before that leaves the queue."""
        await self._send("POST", "skip", None if to is None else {"to": track_id_of(to)})

    async def previous(self) -> None:
        """Back to what was played before. Raises `Conflict` when there is nothing."""
        await self._send("POST", "previous")

    async def seek(self, position_ms: int) -> None:
        """Raises `Conflict` for what is live or cannot be sought."""
        await self._send("PATCH", "position", {"position": whole_ms(position_ms)})

    async def seek_by(self, offset_ms: int) -> None:
        """Forwards, or back below 0."""
        await self._send("PATCH", "position", {"offset": whole_ms(offset_ms)})

    async def set_volume(self, volume: float) -> None:
        """Linear: 1 changes nothing, up to 5."""
        await self._send("PATCH", "filters", {"volume": volume})

    async def set_loop(self, mode: LoopMode | Literal["none", "track", "queue"]) -> None:
        """What comes again at its end: nothing, the track, or the whole queue."""
        await self._send("PATCH", "loop", {"mode": loop_name(mode)})

    async def set_filters(self, preset: str | None = None, /, **changes: Any) -> None:
        """A preset by its name, in place of all that was set (`PRESETS` has them); or changes of what is set:
        `volume=0.5`, `eq={0: 6.0}`, `timescale={"speed": 1.2}`, `low_pass=None`, `reset=True`. Both: these upon that.

        Raises `ValueError` for a name that is no preset, and `BadRequest`, which names the field, for what
        is no filter.
        """
        body = {} if preset is None else preset_body(preset)
        await self._send("PATCH", "filters", {**body, **filter_changes(changes)})

    async def set_crossfade(self, duration_ms: int, *, curve: str = "equalPower", on_skip: bool = False) -> None:
        """0 joins tracks sample for sample."""
        body = {"durationMs": whole_ms(duration_ms), "curve": curve, "onSkip": on_skip}
        await self._send("PATCH", "crossfade", body)

    async def set_metadata(self, value: Metadata, *, merge: bool = True) -> None:
        """Notes any JSON with the player: merged into what there is (RFC 7396), or in its place."""
        await self._send("PATCH", "metadata", {"value": value, "merge": merge})

    async def overlay(self, track: Playable, **settings: float) -> str:
        """Plays a sound over the music: `volume`, `duck_db`, `fade_ms`, `start_ms`, `end_ms`. The overlay's id."""
        answer = await self._send("POST", "overlays", {**playable_body(track), **filter_changes(settings)})
        return str(answer["overlayId"])

    async def stop_overlay(self, overlay_id: str) -> None:
        """Ends a sound over the music, by the id that `overlay` gave."""
        await self._send("DELETE", f"overlays/{overlay_id}")

    def join_voice(self, guild_id: int | str, user_id: int | str, *, bitrate: int | None = None) -> VoiceLink:
        """Has the node speak in a Discord voice channel for the bot `user_id`: give what this returns the events of the
        bot's gateway, and ask the gateway to join. `bitrate` is the channel's, in bit/s."""
        return VoiceLink(self._send, guild_id, user_id, bitrate)

    async def history(self) -> list[PlayedTrack]:
        """What was played, the newest first, at most 50."""
        return read(HISTORY_MODEL, await self._send("GET", "history"))

    async def artwork(self) -> tuple[bytes, str] | None:
        """The picture inside the current file, and its media type; None when there is none."""
        try:
            return await self._connection.content(f"{self._path}/artwork")
        except NotFound as error:
            if isinstance(error, PlayerNotFound):
                raise
            return None

    async def delete(self) -> None:
        """Ends the player, its streams and its sockets."""
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
        """The sound, frame by frame: see `AudioStream`."""
        return AudioStream(
            self._connection, self.id, audio_format, bitrate=bitrate, max_latency_ms=max_latency_ms, waits_s=waits_s
        )

    def stream_url(self, kind: Literal["mp3", "ogg", "wav"] = "mp3") -> str:
        """The address of an endless stream, for players and browsers."""
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
        """What happens, of these kinds, classes or their names (all without any), until the player is deleted; through
        restarts of the node: see `EventStream`. Each loop has a socket of its own, so a slow one delays nobody.

        Where the loop begins, what is wrong is raised: `PlayerNotFound` and other `ApiError`s, and `ConnectError`.
        Later nothing is, except `Unauthorized` when the node came back with another password.
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
        """Calls `callback` with each event of this kind, a class or its name, from now on; what is returned ends that.
        What it raises is logged, and ends nothing. Raises `TypeError` for what is no kind of event."""
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
        """The next event of this kind that `check` agrees to. Raises `TimeoutError`, `PlayerNotFound` when the player
        is gone before, what ended the events otherwise, such as `Unauthorized`, and what `check` raises."""
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
        """Whenever fewer than `below` tracks wait, asks `more` for some and puts them into the queue, one call at a
        time. What is returned ends that."""
        asking = asyncio.Lock()

        async def look(_: object) -> None:
            if asking.locked() or len(self.queue) >= below:
                return
            async with asking:
                tracks = await more(self)
                if tracks:
                    await self.queue.put(*tracks)

        offs = [self.on(kind, look) for kind in (events.QueueUpdate, events.TrackStart, events.PlayerState, QueueEnd)]
        return lambda: _call_all(offs)

    def on_inactive(self, after_s: float, callback: Callable[[Self], Awaitable[None] | None]) -> Callable[[], None]:
        """Calls `callback` when the player has had nothing to play, or nobody who listens, for so long. What is
        returned ends that."""
        timer: asyncio.TimerHandle | None = None

        def fire() -> None:
            nonlocal timer
            timer = None
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
        """Keeps the mirror and calls the callbacks from now on, if that is not done yet."""
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._follow(place), name=f"tonearm player {self.id}")
            self._following.add_done_callback(self._log_end)

    async def unfollow(self) -> None:
        """Ends the mirror and the callbacks."""
        tasks = [
            task for task in (self._following, *self._calls) if task is not None and task is not asyncio.current_task()
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
        """The whole state, which the mirror has then."""
        state = read(PLAYER_MODEL, await self._connection.request("GET", self._path))
        self._mirror.take_state(state)
        return state

    async def _send(self, method: str, what: str, body: Mapping[str, Any] | None = None) -> Any:
        return await self._connection.request(method, f"{self._path}/{what}", body)


def _call_all(offs: Iterable[Callable[[], None]]) -> None:
    for off in offs:
        off()

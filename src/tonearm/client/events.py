"""The events of players as streams that reconnect and continue after the last event that arrived. `Mirror` keeps a
player's state up to date from its events, so that a program can read it without a request.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType, UnionType
from typing import Any, Final, TypeAlias, get_args
from urllib.parse import quote

import aiohttp
from pydantic import ValidationError

from tonearm.client.connection import Connection
from tonearm.client.errors import PlayerNotFound, TonearmError, Unauthorized
from tonearm.core.events import PlayerState as State
from tonearm.core.play_queue import EndReason, LoopMode
from tonearm.protocol import events
from tonearm.protocol.events import EVENT, AnyEvent, PlayerState, PlayerUpdate, TrackEnd, TrackStart
from tonearm.protocol.framing import CloseCode
from tonearm.protocol.replies import PlayerStateFields, TrackOut, Voice

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0

_AT_END: Final = frozenset({State.IDLE, State.FAILED})

_CLOSE_REASONS: Final[Mapping[int, str]] = {
    CloseCode.GOING_AWAY: "The node is shutting down.",
    CloseCode.TOO_SLOW: "The node closed the connection, because the program was too slow for it.",
}


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The connection was lost. `reason` is a sentence that says why. The client now tries to reconnect."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The connection is back. The events that were missed follow. If the node does not have all of them any more, a
    `PlayerState` with the whole state follows instead."""

    id: str
    away_s: float


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """The player's sound is over. Its last track ended, and it is idle; or its last track could not be played, or too
    many in a row, and it is failed. Only after too many do tracks still wait. `track` is the track that ended. It is
    None if the track ended while the connection was lost."""

    id: str
    track: TrackOut | None


@dataclass(frozen=True, slots=True)
class PlayerGone:
    """The player was deleted, or the node restarted without it. This is the last event."""

    id: str


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a newer node that this client does not know, as the node sent it."""

    id: str
    op: str
    fields: dict[str, Any]


ClientEvent: TypeAlias = Disconnected | Reconnected | QueueEnd | PlayerGone | UnknownEvent
Event: TypeAlias = AnyEvent | ClientEvent

_KINDS: Final[Mapping[str, type]] = MappingProxyType(
    {kind.__name__: kind for kind in (*get_args(get_args(AnyEvent)[0]), *get_args(ClientEvent))}
)


def event_kind(kind: type | UnionType | str) -> type | UnionType:
    """The event class for `kind`, a class or its name. Raises `TypeError` if `kind` is not an event."""
    if isinstance(kind, str):
        if kind in _KINDS:
            return _KINDS[kind]
        near = get_close_matches(kind, _KINDS, 1, 0.0)
        raise TypeError(f"There is no event {kind!r}; did you mean {near[0]}?")
    for one in get_args(kind) if isinstance(kind, UnionType) else (kind,):
        if not (isinstance(one, type) and any(issubclass(known, one) for known in _KINDS.values())):
            shown = one.__name__ if isinstance(one, type) else repr(one)
            raise TypeError(f"Events have a class, such as TrackStart, or its name; {shown} is none of them.")
    return kind


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a player's events: the number `seq` of the last event that arrived, in one `life` of the player."""

    life: str
    seq: int

    def __str__(self) -> str:
        return f"{self.life}.{self.seq}"


class EventStream:
    """The events of a player until it is deleted, or `Node.close` is called. With `since` the stream begins with the
    events after that place, without it with the whole state as a `PlayerState`.

    `connect` raises an error if the first connection fails. After that only `Unauthorized` is raised. A program that
    reads events slowly delays nobody else: the node waits for a while and then closes the connection. The stream then
    reconnects and continues where it was.
    """

    def __init__(self, connection: Connection, player_id: str, since: Place | None = None) -> None:
        self._connection = connection
        self._id = player_id
        self._path = f"/v0/players/{quote(player_id, safe='')}/events"
        self.place = since
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._closings = connection.closings
        self._state: State | None = None
        self._ended: TrackEnd | None = None

    async def connect(self) -> None:
        """Connects now, so that a failure is raised here: `ApiError` or `ConnectError`."""
        since = "" if self.place is None else f"&since={self.place}"
        self._socket = await self._connection.socket(f"{self._path}?snapshot=true{since}")

    async def close(self) -> None:
        """Ends the stream. The player continues to play."""
        if self._socket is not None:
            await self._connection.end(self._socket)

    async def received(self) -> AsyncGenerator[Event, None]:
        """The events in order, until the player is gone."""
        try:
            async for event in self._events():
                yield event
        finally:
            await self.close()

    async def _events(self) -> AsyncGenerator[Event, None]:
        away_since: float | None = None
        pause_s = FIRST_PAUSE_S
        while not self._is_over():
            reason = "The connection to the node was lost."
            try:
                if self._socket is None or self._socket.closed:
                    await self.connect()
                if away_since is not None:
                    yield Reconnected(self._id, time.monotonic() - away_since)
                    away_since, pause_s = None, FIRST_PAUSE_S
                async for event in self._messages():
                    for one in self._with_own(event):
                        yield one
                close_code = None if self._socket is None else self._socket.close_code
                if close_code == CloseCode.DELETED:
                    yield PlayerGone(self._id)
                    return
                reason = _CLOSE_REASONS.get(close_code or 0, reason)
            except PlayerNotFound:
                yield PlayerGone(self._id)
                return
            except Unauthorized:
                raise
            except TonearmError as error:  # The stream tries again until it succeeds.
                reason = error.message
            if self._is_over():
                return
            if away_since is None:
                away_since = time.monotonic()
                yield Disconnected(self._id, reason)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _is_over(self) -> bool:
        return self._closings != self._connection.closings

    async def _messages(self) -> AsyncGenerator[Event, None]:
        """The events that arrive until the socket closes."""
        assert self._socket is not None
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            try:
                event: AnyEvent = EVENT.validate_json(message.data)
            except ValidationError:
                fields = _fields(message.data)
                if "op" in fields:
                    yield UnknownEvent(self._id, str(fields["op"]), fields)
                continue
            life, seq = getattr(event, "life", None), getattr(event, "seq", None)
            if life is not None and seq is not None:
                self.place = Place(life, seq)
            yield event

    def _with_own(self, event: Event) -> list[Event]:
        """The event, and the events that this client derives from it."""
        if isinstance(event, TrackEnd):
            self._ended = event
        if isinstance(event, TrackStart):
            self._ended = None
        if not isinstance(event, PlayerState | PlayerUpdate):
            return [event]
        was, self._state = self._state, event.state
        ended, self._ended = self._ended, None if event.state in _AT_END else self._ended
        if event.state not in _AT_END or was in _AT_END or (was is None and ended is None):
            return [event]
        if ended is None:  # The event arrived while the connection was lost.
            return [event, QueueEnd(self._id, None)]
        return [event] if ended.reason is EndReason.STOPPED else [event, QueueEnd(self._id, ended.track)]


class NodeEventStream(EventStream):
    """As `EventStream`, for all players of a node. The stream begins with the state of each player, and sends these
    states again after a reconnect."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, "")

    async def connect(self) -> None:
        self._socket = await self._connection.socket("/v0/events?snapshot=true")

    def _with_own(self, event: Event) -> list[Event]:
        return [event]


def _fields(text: str) -> dict[str, Any]:
    """The fields of a JSON object. Empty if `text` is not a JSON object."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class Mirror:
    """The known state of a player. `now_s` is any clock that never goes back."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self.is_known = False
        self.state = State.IDLE
        self.track: TrackOut | None = None
        self.track_id = ""
        self.paused = False
        self.volume = 1.0
        self.loop = LoopMode.NONE
        self.metadata: Any = {}
        self.queue_length = 0
        self.listeners = 0
        self.voice: Voice | None = None
        self._position_ms = 0.0
        self._rate = 1.0
        self._at_s = now_s()

    @property
    def position_ms(self) -> int:
        """The position in the file: the last reported one, plus the time since then while the player plays."""
        position_ms = self._position_ms
        if self.state is State.PLAYING and not self.paused:
            position_ms += (self._now_s() - self._at_s) * 1000 * self._rate
        length_ms = self.track.info.length if self.track else 0
        return int(min(position_ms, length_ms) if length_ms else position_ms)

    def take(self, event: Event) -> None:
        """Updates the state from an event."""
        match event:
            case events.PlayerState():
                self.take_state(event)
            case events.TrackStart():
                self.track, self.track_id = event.track, event.track_id
                self._is_at(event.position)
            case events.PlayerUpdate():
                self._is_at(event.position)
                self.state, self.paused, self._rate = event.state, event.paused, event.position_rate
            case events.PlayerPause() | events.PlayerResume():
                self._is_at(event.position)
                self.paused = isinstance(event, events.PlayerPause)
            case events.Seek() | events.SeekFailed():
                self._is_at(event.position)
            case events.QueueUpdate():
                self.queue_length = event.length
            case events.LoopModeChange():
                self.loop = event.mode
            case events.FiltersChange():
                self.volume = event.filters.volume
            case events.MetadataChange():
                self.metadata = event.metadata
            case events.ListenersChange():
                self.listeners = event.listeners
            case events.VoiceState():
                self.voice = event.voice
            case _:
                pass

    def take_state(self, state: PlayerStateFields) -> None:
        """Replaces the whole state."""
        self.is_known = True
        self.state, self.paused = state.state, state.paused
        self.track, self.track_id = (state.track, state.track_id) if state.track_id else (None, "")
        self.volume, self.loop, self.metadata = state.volume, state.loop, state.metadata
        self.queue_length, self.listeners, self.voice = state.queue_length, state.listeners, state.voice
        self._is_at(state.position)
        self._rate = state.position_rate

    def _is_at(self, position_ms: int) -> None:
        self._position_ms, self._at_s = position_ms, self._now_s()

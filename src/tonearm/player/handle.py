"""The interface of a player for the server. The player may be on any node."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol

from tonearm.core.events import EventMessage
from tonearm.core.metadata import Json
from tonearm.core.overlays import OverlayStatus
from tonearm.core.play_queue import PlayedTrack
from tonearm.core.playback_requests import Requests
from tonearm.core.playback_state import Outcome
from tonearm.core.player_status import PlayerStatus, WaitingTracks
from tonearm.core.snapshot import PlayerSnapshot
from tonearm.player.clients.sinks import EventSink, FrameSink

_P = ParamSpec("_P")


class Listened(Protocol):
    """The interface of a player for its listeners. `player.player.Player` documents it."""

    def attach(self, sink: FrameSink, *, is_counted: bool = True, is_stranger: bool = False) -> Callable[[], None]: ...

    def count(self, sink: FrameSink) -> None: ...

    def title(self) -> tuple[str, str]: ...

    @property
    def metadata(self) -> Json: ...


class PlayerHandle(Listened, Protocol):
    """The interface of a player for the server. `player.player.Player` documents it."""

    @property
    def player_id(self) -> str: ...

    # Its clients

    def count(self, sink: FrameSink, listeners: int = 1) -> None: ...

    def subscribe(
        self, sink: EventSink, since: int | None, wants_snapshot: bool, life: str | None = None
    ) -> Callable[[], None]: ...

    # Requests

    def do(
        self, change: Callable[Concatenate[Requests, _P], Outcome], *values: _P.args, **named: _P.kwargs
    ) -> None: ...

    def seek(self, position_ms: int) -> None: ...

    def seek_by(self, offset_ms: int) -> None: ...

    def change_metadata(self, merge: bool, value: Json) -> None: ...

    def remove_overlay(self, overlay_id: str) -> None: ...

    # State

    def status(self) -> PlayerStatus: ...

    def state_message(self) -> EventMessage: ...

    def snapshot(self) -> PlayerSnapshot: ...

    def record(self) -> PlayerSnapshot: ...

    def overlay(self, overlay_id: str) -> OverlayStatus: ...

    @property
    def queue(self) -> WaitingTracks: ...

    @property
    def history(self) -> tuple[PlayedTrack, ...]: ...

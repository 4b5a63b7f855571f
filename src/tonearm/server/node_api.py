"""What the edge asks of the node."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from tonearm.audio.sinks import EventSink, FrameSink
from tonearm.core.filters import FilterChange
from tonearm.core.json_value import Json, JsonObject
from tonearm.core.play_queue import LoopMode


class NodeApi(Protocol):
    """All methods run on the event loop and may raise the classes of `tonearm.core.errors`."""

    async def create_player(
        self, player_id: str, uri: str, metadata: Json, *, came_through_proxy: bool = False
    ) -> None: ...

    async def delete_player(self, player_id: str) -> None: ...

    def list_players(self) -> Iterator[JsonObject]:
        """The whole state of each player, with `id` and `track`; made one by one, as they are taken."""
        ...

    def player_state(self, player_id: str) -> JsonObject: ...

    def has_player(self, player_id: str) -> bool:
        """False for anything that is no id of a player, however it is spelled. Never raises."""
        ...

    def play(self, player_id: str) -> None: ...

    def pause(self, player_id: str) -> None: ...

    def skip(self, player_id: str) -> None: ...

    async def enqueue(
        self, player_id: str, uri: str, metadata: Json, *, came_through_proxy: bool = False
    ) -> Sequence[str]:
        """Returns the new tracks' ids: those of a playlist's entries, else one."""
        ...

    def waiting(self, player_id: str) -> list[JsonObject]:
        """The waiting tracks in order, each `{id, uri, metadata}`."""
        ...

    def set_loop(self, player_id: str, mode: LoopMode) -> None: ...

    def filters(self, player_id: str) -> JsonObject: ...

    def change_filters(self, player_id: str, change: FilterChange) -> None: ...

    def change_metadata(self, player_id: str, merge: bool, value: Json) -> None: ...

    def attach_listener(self, player_id: str, sink: FrameSink) -> Callable[[], None]:
        """Frames go to `sink` from now on, until the returned function is called."""
        ...

    def subscribe(self, player_id: str, sink: EventSink, *, since: int | None, snapshot: bool) -> Callable[[], None]:
        """Events go to `sink` from now on, until the returned function is called."""
        ...

    async def resolve(self, url: str, *, came_through_proxy: bool = False) -> str:
        """Returns the direct path or URL behind `url`."""
        ...

    async def load_track(self, identifier: str, *, came_through_proxy: bool = False) -> JsonObject | None:
        """TrackOut of the source that `identifier` names, really opened; None when it cannot be played."""
        ...

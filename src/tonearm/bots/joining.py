"""A player in a voice channel: joined, played and left in one call each.

It uses only what channels and voice clients of discord.py, py-cord, disnake and nextcord have in common.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, ClassVar, Protocol, Self
from weakref import WeakSet

from tonearm.bots.source import FrameSource
from tonearm.client import Metadata, Node, Playable, Player, PlayerExists, PlayerNotFound, State, TonearmError

log = logging.getLogger("tonearm.client")

_CONNECTED_INTERVAL_S = 1.0  # between two checks of a connection that was lost
_MEMBERS_INTERVAL_S = 5.0  # between two checks of the channel's members
_CONNECTED_AGAIN_S = 60.0  # a library connects again after a fault, and with each move


class VoiceClient(Protocol):
    """The methods of a library's voice client that are used here."""

    channel: Any
    source: Any

    def play(self, source: Any, *, after: Callable[[Exception | None], Any] | None = None) -> None: ...

    def stop(self) -> None: ...

    def is_connected(self) -> bool: ...

    def is_playing(self) -> bool: ...

    async def move_to(self, channel: Any) -> None: ...

    async def disconnect(self, *, force: bool = False) -> None: ...


class Connectable(Protocol):
    """A voice channel of a library."""

    def connect(self) -> Awaitable[Any]: ...


class Bot(Protocol):
    def dispatch(self, event: str, /, *arguments: Any) -> None: ...


class VoicePlayer(Player):
    """A player that sounds in a voice channel. `voice` is the library's voice client, `source` what it plays."""

    voice: VoiceClient
    source: FrameSource
    is_there = False  # in a channel
    _loop: asyncio.AbstractEventLoop | None = None  # once it was in a channel
    _leaving: asyncio.Task[None] | None = None
    _all: ClassVar["WeakSet[VoicePlayer]"] = WeakSet()  # of this program

    def play_in(self, voice: VoiceClient, source: FrameSource, leave_after_s: float | None) -> Self:
        """Begins to play `source` in `voice`. The player leaves a channel that has had no people for `leave_after_s`,
        or no connection for a minute; None: never. It leaves, too, when the node has it no more."""
        self.voice = voice
        self._loop = asyncio.get_running_loop()
        self._sound(source)
        self.is_there = True
        self._all.add(self)
        if leave_after_s is not None:
            self._leaving = asyncio.create_task(self._leave_when_alone(leave_after_s), name=f"leaving of {self.id}")
        return self

    async def move_to(self, channel: Any) -> None:
        """Moves to another channel of the guild. The node's player plays on meanwhile."""
        await self.voice.move_to(channel)

    async def leave(self, *, delete: bool = True) -> None:
        """Leaves the channel. With `delete` the node's player is deleted; if it sounds in another channel of this
        program, only this object stops following it. Else it plays on for other listeners."""
        if not self.is_there:
            return
        self.is_there = False
        self._stop_watching()
        self.source.close()
        self.voice.stop()
        try:
            if not self.was_sent_away:
                await self.voice.disconnect(force=True)
        finally:
            if delete and self._sounds_elsewhere:
                await self.unfollow()
            elif delete:
                with suppress(PlayerNotFound):
                    await self.delete()

    @property
    def was_sent_away(self) -> bool:
        """Whether the bot was sent away from this channel: the library does not know the voice client any more. The bot
        may have joined again, with another one."""
        guild = getattr(self.voice.channel, "guild", None)
        return getattr(guild, "voice_client", self.voice) is not self.voice

    @property
    def is_over(self) -> bool:
        """Whether it was in a channel and is no more: it has left, was sent away, or its event loop has ended."""
        return self._loop is not None and (not self.is_there or self.was_sent_away or self._loop.is_closed())

    @property
    def _sounds_elsewhere(self) -> bool:
        return any(
            other is not self and not other.is_over
            for other in self._all
            if (other._connection.url, other.id) == (self._connection.url, self.id)
        )

    def _sound(self, source: FrameSource) -> None:
        self.source = source
        self.voice.play(source)
        source.when_over(partial(self._sound_is_over, source))

    def _sound_is_over(self, source: FrameSource, by_node: bool) -> None:
        if not self.is_there or self.voice.source is not source:
            return
        if by_node:
            self._stop_watching()
            self._leaving = asyncio.create_task(self._leave_unasked(delete=False), name=f"leaving of {self.id}")
        elif self.voice.is_playing():  # discord.py gave it up, which is no end to it, and may be connected again by now
            self._sound_when_connected(source)

    def _sound_when_connected(self, source: FrameSource) -> None:
        """Plays again: discord.py gives a source up after half a minute without a connection, but connects again."""
        if not self.is_there or self.voice.source is not source:
            return
        if self.voice.is_connected():
            self.voice.stop()
            self._sound(type(source)(self))
        else:
            asyncio.get_running_loop().call_later(_CONNECTED_INTERVAL_S, self._sound_when_connected, source)

    def _stop_watching(self) -> None:
        if self._leaving is not None and self._leaving is not asyncio.current_task():
            self._leaving.cancel()

    async def _leave_when_alone(self, after_s: float) -> None:
        alone_s = apart_s = 0.0
        step_s = min(after_s, _MEMBERS_INTERVAL_S)
        while alone_s < after_s and apart_s < _CONNECTED_AGAIN_S:
            await asyncio.sleep(step_s)
            apart_s = 0.0 if self.voice.is_connected() else apart_s + step_s
            members = getattr(self.voice.channel, "members", None)
            has_people = members is None or any(not member.bot for member in members)
            alone_s = 0.0 if has_people else alone_s + step_s
        await self._leave_unasked()

    async def _leave_unasked(self, *, delete: bool = True) -> None:
        try:
            await self.leave(delete=delete)
        except Exception as error:
            own = None if isinstance(error, TonearmError) else error
            log.error("The channel of player %s could not be left properly: %s", self.id, error, exc_info=own)


class JoiningSource(FrameSource):
    """A source with `join`, which connects to a channel and plays there."""

    @classmethod
    async def join(
        cls,
        channel: Connectable,
        node: Node,
        track: Playable | None = None,
        *,
        player_id: str | None = None,
        leave_after_s: float | None = 300.0,
        metadata: Metadata = None,
    ) -> VoicePlayer:
        """Connects to `channel` and plays `track` there, or waits for a track. The player's id is that of the channel,
        unless `player_id` is given. The player leaves a channel that has had no people for `leave_after_s` seconds.

        A player of this id that the node still has, of a program that ended without `leave`, is taken over: with its
        queue and settings, and what it plays goes on unless there is a `track`.

        Raises the errors of the library's `connect` and `play`, and `ApiError` and `ConnectError`; then the channel is
        left again, and a player that is new is deleted.
        """
        name = player_id or str(getattr(channel, "id", "voice"))
        voice = await channel.connect()
        async with AsyncExitStack() as undoing:
            undoing.push_async_callback(voice.disconnect, force=True)
            player, is_new = await _created_or_taken_over(node, name, track, metadata)
            if is_new:
                undoing.push_async_callback(_delete, player)
            source = cls(player)
            undoing.callback(source.close)
            if track is not None or (player.state is State.PLAYING and not player.paused):
                await source.ready()
            if source._current_error is not None:
                raise source._current_error
            player.play_in(voice, source, leave_after_s)
            undoing.pop_all()
        return player


async def _created_or_taken_over(
    node: Node, name: str, track: Playable | None, metadata: Metadata
) -> tuple[VoicePlayer, bool]:
    """The player, and whether it is new."""
    settings = {} if metadata is None else {"metadata": metadata}
    try:
        return await node.create_player_of(VoicePlayer, name, track, settings), True
    except PlayerExists:
        earlier = node.player(name)
        player = await node.take_over(VoicePlayer, name)
        if isinstance(earlier, VoicePlayer) and earlier.is_over:
            await earlier.unfollow()
    if metadata is not None:
        await player.set_metadata(metadata, merge=False)
    if track is not None:
        await player.play(track)
        await player.play()  # it may have been paused
    return player, False


async def _delete(player: Player) -> None:
    with suppress(TonearmError):  # The error because of which it is deleted is raised.
        await player.delete()


def dispatch(bot: Bot, player: Player) -> Callable[[], None]:
    """Passes a player's events on to the bot: `TrackStart` calls `on_tonearm_track_start(event)`. Returns a function
    that ends this."""

    def pass_on(event: object) -> None:
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
        bot.dispatch(f"tonearm_{name}", event)

    return player.on(object, pass_on)

"""The voices of all players: which player is in which channel, and the state of each voice.

A player has one voice. To move it, a second connection is opened, and the first sends until the second can send. The
saved state has no secrets to join with, so the bot has to join again after a restart.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from tonearm.core.errors import BadRequest, EndpointBlocked, LimitReached, VoiceTaken
from tonearm.core.metadata import Json
from tonearm.core.voice import (
    NodeReason,
    PacketCounts,
    VoiceCredentials,
    VoiceFigures,
    VoicePhase,
    VoiceSettings,
    VoiceStatus,
    VoiceTarget,
    closed_for,
    is_admitted,
    record_of,
)
from tonearm.player.player import VOICE, Player
from tonearm.protocol.framing import CloseCode
from tonearm.sandbox.report import SandboxMode
from tonearm.sources.guard import AddressGuard, AddressRefusedError
from tonearm.voice.connection import VoiceConnection, VoiceWays
from tonearm.voice.gateway import GatewayDialler
from tonearm.voice.media import VoiceProcesses

_LEAVE_LIMIT_S: Final = 3.0  # when the node stops

log = logging.getLogger(__name__)


def usual_ways(settings: VoiceSettings, sandbox_mode: SandboxMode, wall_ms: Callable[[], int]) -> VoiceWays:
    guard = AddressGuard(private_networks=settings.private_networks, one_machine=True)
    return VoiceWays(settings, GatewayDialler(guard), guard, VoiceProcesses(settings, sandbox_mode), wall_ms)


class Voices:
    """See the class of this name in `node.parts`. Nothing is started before the first voice."""

    def __init__(self, ways: VoiceWays) -> None:
        self._ways = ways
        self._voices: dict[str, PlayerVoice] = {}
        self._tally = _Tally()

    def check(self, player_id: str, target: VoiceTarget) -> None:
        """Raises `VoiceTaken`, `EndpointBlocked` and `LimitReached` as `put` would, and changes nothing."""
        endpoint = target.endpoint
        if endpoint is not None:
            if not is_admitted(endpoint.host, self._ways.settings.endpoints):
                raise EndpointBlocked(
                    "The node may not connect to this voice server; voice.endpoints lists the allowed servers."
                )
            try:
                self._ways.guard.check_host(endpoint.host, endpoint.port)
            except AddressRefusedError as error:
                allows = "; voice.private_networks = true allows servers in private networks"
                more = "" if self._ways.settings.private_networks else allows
                raise EndpointBlocked(f"The node may not connect to a voice server at this address{more}.") from error
        for other, voice in self._voices.items():
            of_both = (target.guild_id, target.user_id)
            if other != player_id and voice.is_there and of_both == (voice.target.guild_id, voice.target.user_id):
                raise VoiceTaken(
                    f'The player "{other}" has this bot\'s voice in this guild. A bot has one voice in a guild: '
                    "end that one first, or have that player play."
                )
        voice_of_its_own = self._voices.get(player_id)
        if voice_of_its_own is None or not voice_of_its_own.is_there:
            most = self._ways.settings.max_connections
            if sum(voice.is_there for voice in self._voices.values()) >= most:
                raise LimitReached(f"The node has reached voice.max_connections: {most} voices.")

    def put(self, player: Player, target: VoiceTarget, credentials: VoiceCredentials) -> None:
        """Sends the player's sound to `target` from now on. The same values again change nothing."""
        self.check(player.player_id, target)
        voice = self._voices.get(player.player_id)
        if voice is None:
            voice = PlayerVoice(player, target, self._ways, self._tally, self._forget)
            self._voices[player.player_id] = voice
        if target.endpoint is not None:
            self._ways.processes.prepare()
        voice.go(target, credentials)

    def leave(self, player_id: str) -> None:
        voice = self._voices.get(player_id)
        if voice is not None:
            voice.leave()

    async def settled(self, player_id: str, within_s: float) -> VoiceStatus | None:
        voice = self._voices.get(player_id)
        return None if voice is None else await voice.settled(within_s)

    def figures(self) -> VoiceFigures:
        tally, media = self._tally, self._ways.processes.figures()
        connections = tally.connections
        return VoiceFigures(
            Counter(voice.status.phase for voice in self._voices.values()),
            sum((each.packets for each in connections), tally.packets),
            media.late,
            tally.resumes + sum(each.resumes for each in connections),
            tally.reconnects + sum(each.new_sessions for each in connections),
            Counter(tally.closes),
            tally.handshake_ms,
            media.longest_mls_ms,
            media.restarts,
            media.processes,
        )

    async def stop(self) -> None:
        """Leaves all channels in an orderly way."""
        for voice in tuple(self._voices.values()):
            voice.leave()
        if self._tally.leaving:
            await asyncio.wait(self._tally.leaving, timeout=_LEAVE_LIMIT_S)
        for task in self._tally.leaving:
            task.cancel()
        if self._tally.leaving:
            await asyncio.wait(self._tally.leaving)
        await self._ways.dialler.close()
        await self._ways.processes.stop()

    def _forget(self, voice: "PlayerVoice") -> None:
        if self._voices.get(voice.player_id) is voice:
            del self._voices[voice.player_id]


class _Tally:
    """Counts over all connections: the living connections, and the sums of those that have ended."""

    def __init__(self) -> None:
        self.connections: set[VoiceConnection] = set()
        self.leaving: set[asyncio.Task[None]] = set()
        self.packets = PacketCounts()
        self.resumes = 0
        self.reconnects = 0
        self.closes: Counter[str] = Counter()
        self.handshake_ms: float | None = None

    def ended(self, connection: VoiceConnection) -> None:
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        self.packets = self.packets + connection.packets
        self.resumes += connection.resumes
        self.reconnects += connection.new_sessions
        close = connection.status.close
        if close is not None:
            self.closes[close.reason if close.code is None else str(close.code)] += 1

    def leave(self, connection: VoiceConnection) -> None:
        """Makes the connection leave in the background."""

        async def leave() -> None:
            await connection.leave()
            self.ended(connection)

        task = asyncio.get_running_loop().create_task(leave())
        self.leaving.add(task)
        task.add_done_callback(self.leaving.discard)


class PlayerVoice:
    """The voice of one player, and the player's `Companion`. `_newest` is the connection that was opened last.
    `_sounding` is attached to the player: the newest one, or the one before it, which sends until the newest can."""

    def __init__(
        self,
        player: Player,
        target: VoiceTarget,
        ways: VoiceWays,
        tally: _Tally,
        forget: Callable[["PlayerVoice"], None],
    ) -> None:
        self.player_id = player.player_id
        self.target = target
        self._player = player
        self._ways = ways
        self._tally = tally
        self._forget = forget
        self._newest: VoiceConnection | None = None
        self._sounding: VoiceConnection | None = None
        self._detach: Callable[[], None] | None = None
        self._move_timer: asyncio.TimerHandle | None = None
        self._waits: set[asyncio.Future[None]] = set()
        self._has_left = False
        self._unaccompany = player.accompany(VOICE, self)
        self.status = VoiceStatus(VoicePhase.CONNECTING, target, self._ways.wall_ms())

    @property
    def is_there(self) -> bool:
        """Whether the voice was not given up."""
        return self.status.phase is not VoicePhase.CLOSED

    def go(self, target: VoiceTarget, credentials: VoiceCredentials) -> None:
        """Connects to `target`, unless it does already."""
        newest = self._newest
        is_same = newest is not None and (newest.target, newest.credentials) == (target, credentials)
        if is_same and self.is_there:
            return
        self.target = target
        self._stop_waiting()  # for the connection before
        self._player.accompany(VOICE, self)  # its record has changed
        if newest is not None and newest is not self._sounding:
            self._tally.leave(newest)
        if target.endpoint is None:
            self._end_sounding()
            self._newest = None
            closed = closed_for(NodeReason.ENDPOINT_GONE)
            self._tally.closes[closed.reason] += 1
            self._show(VoiceStatus(VoicePhase.CLOSED, target, self._ways.wall_ms(), close=closed))
            return
        udp_port = 0 if self._sounding is None else self._sounding.udp_port
        connection = VoiceConnection(self._ways, target, credentials, lambda: self._changed(connection), udp_port)
        self._newest = connection
        self._tally.connections.add(connection)
        connection.start()

    def leave(self) -> None:
        """Leaves the channel; the player goes on."""
        if self._has_left:
            return
        self._has_left = True
        if self._newest is not None and self._newest is not self._sounding:
            self._tally.leave(self._newest)
        self._end_sounding()
        self._newest = None
        self._unaccompany()
        self._forget(self)
        self._show(VoiceStatus(VoicePhase.NONE, self.target, self._ways.wall_ms()))

    async def settled(self, within_s: float) -> VoiceStatus:
        """The status once it is not `connecting`, or after this time."""
        if self.status.phase is VoicePhase.CONNECTING:
            wait = asyncio.get_running_loop().create_future()
            self._waits.add(wait)
            try:
                await asyncio.wait([wait], timeout=within_s)
            finally:
                self._waits.discard(wait)
        return self.status

    # Calls of the player

    def record(self) -> Json:
        return record_of(self.target)

    def player_ended(self, code: CloseCode) -> None:
        self.leave()

    # Reports of the connections

    def _changed(self, connection: VoiceConnection) -> None:
        status = connection.status
        if status.phase is VoicePhase.CLOSED:
            self._tally.ended(connection)
        if connection.handshake_ms is not None and connection is self._newest:
            self._tally.handshake_ms = connection.handshake_ms
        if connection is self._sounding and connection is not self._newest:
            if connection.is_over:  # as expected: the node makes no attempt to keep it
                self._end_sounding()
        elif connection is self._newest:
            if status.phase is VoicePhase.CLOSED:
                self._end_sounding()
            elif status.sounds and connection is not self._sounding:
                self._take_over(connection, status)
            self._show(connection.status)

    def _take_over(self, connection: VoiceConnection, status: VoiceStatus) -> None:
        """Attaches the newest connection to the player. The older one ends when it is not needed any more."""
        if self._sounding is not None and not status.can_flow and not self._is_overdue:
            if self._move_timer is None:
                loop = asyncio.get_running_loop()
                self._move_timer = loop.call_later(self._ways.move_limit_s, self._changed, connection)
            return
        older = self._sounding
        try:
            attached = self._attach(connection)
        except (LimitReached, BadRequest) as error:
            log.warning("player %s: a voice cannot get its audio: %s", self.player_id, error)
            connection.give_up(NodeReason.LIMIT_REACHED)
            return
        detach, self._detach = self._detach, attached
        self._sounding = connection
        self._stop_waiting()
        if detach is not None:
            detach()
        if older is not None:
            self._tally.leave(older)

    def _attach(self, connection: VoiceConnection) -> Callable[[], None]:
        """Attaches the newest connection to the player, in place of the older one if the player may have no further
        listener. Raises `LimitReached` and `BadRequest`."""
        try:
            return self._player.attach(connection, is_voice=True)
        except LimitReached:
            detach, self._detach = self._detach, None
            if detach is None:
                raise
            detach()
        return self._player.attach(connection, is_voice=True)

    @property
    def _is_overdue(self) -> bool:
        timer = self._move_timer
        return timer is not None and timer.when() <= asyncio.get_running_loop().time()

    def _end_sounding(self) -> None:
        older, self._sounding = self._sounding, None
        detach, self._detach = self._detach, None
        self._stop_waiting()
        if detach is not None:
            detach()
        if older is not None:
            self._tally.leave(older)

    def _stop_waiting(self) -> None:
        if self._move_timer is not None:
            self._move_timer.cancel()
            self._move_timer = None

    def _show(self, status: VoiceStatus) -> None:
        if self._has_left and status.phase is not VoicePhase.NONE:
            return
        self.status = status
        if status.phase is not VoicePhase.CONNECTING:
            for wait in self._waits:
                if not wait.done():
                    wait.set_result(None)
        self._player.voice_changed(status)

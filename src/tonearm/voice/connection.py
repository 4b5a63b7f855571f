"""One voice connection: carries out the orders of `core.voice_gateway`, and gives the player's packets to the media.

It opens new sockets as often as needed. It ends when it leaves the channel, or when the rules give it up. For its
player it is one listener.
"""

import asyncio
import logging
import random
import socket
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

from tonearm.core.frame import Output
from tonearm.core.voice import (
    DaveStatus,
    NodeReason,
    PacketCounts,
    VoiceCredentials,
    VoicePhase,
    VoiceSettings,
    VoiceStatus,
    VoiceTarget,
)
from tonearm.core.voice_gateway import Describe, Dial, Discover, GiveUp, HangUp, Orders, Pass, Say, VoiceGateway
from tonearm.protocol.framing import Framing
from tonearm.sources.guard import AddressGuard, AddressRefusedError
from tonearm.voice.discovery import NoAnswer, discover, open_udp
from tonearm.voice.gateway import GatewayDialler, GatewaySocket
from tonearm.voice.media import Media, VoiceProcessError, VoiceProcesses
from tonearm.voice.messages import DAVE_VERSION, MediaSetting

_LARGE_CALL: Final = 25  # members; from so many on the key agreement takes longer than a packet may wait
_MOST_EARLY: Final = 256  # messages about the call before its description
_LATENCY_MS: Final = 200  # no frames are queued here: `offer` takes each frame

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VoiceWays:
    """The parts that all connections of a node share. `wall_ms` gives the time of day in ms since 1970. `move_limit_s`:
    how long an older connection waits for the end-to-end encryption of the newer one. `chance` gives 0 to 1."""

    settings: VoiceSettings
    dialler: GatewayDialler
    guard: AddressGuard
    processes: VoiceProcesses
    wall_ms: Callable[[], int]
    move_limit_s: float = 2.0
    chance: Callable[[], float] = random.random


class VoiceConnection:
    """Calls `changed` after each change of its status. Begins with `start`.

    It is a `FrameSink`: its owner attaches it to the player. `udp_port` is its local port; at first that of the
    connection whose place it takes, 0 without one.
    """

    framing = Framing.RAW
    wants_silence = False
    burst_ms = 0
    max_latency_ms = _LATENCY_MS

    def __init__(
        self,
        ways: VoiceWays,
        target: VoiceTarget,
        credentials: VoiceCredentials,
        changed: Callable[[], None],
        udp_port: int = 0,
    ) -> None:
        assert target.endpoint is not None
        self.target = target
        self.credentials = credentials
        opus = ways.settings.opus
        self.output: Output = opus if target.bitrate_bps is None else opus._replace(bitrate_bps=target.bitrate_bps)
        self._ways = ways
        self._endpoint = target.endpoint
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._gateway = VoiceGateway(
            target,
            credentials,
            dave_version=DAVE_VERSION,
            connect_timeout_s=ways.settings.connect_timeout_s,
            chance=ways.chance,
        )
        self._socket: GatewaySocket | None = None
        self._timer: asyncio.Handle | None = None
        self._timer_due_s: float | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._discovery: asyncio.Task[None] | None = None
        self._session = 0  # counts the sessions; results for an older session are dropped
        self._ssrc = 0
        self._udp: socket.socket | None = None
        self.udp_port = udp_port
        self._media: Media | None = None
        self._early: list[Pass] = []
        self._dave = DaveStatus()
        self._packets = self._earlier_packets = PacketCounts()
        self._begun_s = self._loop.time()
        self._since_ms = self._ways.wall_ms()
        self._phase = VoicePhase.CONNECTING
        self.handshake_ms: float | None = None

    def start(self) -> None:
        self._do(self._gateway.start(self._loop.time()))

    @property
    def status(self) -> VoiceStatus:
        gateway = self._gateway
        return VoiceStatus(
            self._phase,
            self.target,
            self._since_ms,
            gateway.ssrc,
            gateway.mode,
            gateway.ping_ms,
            self._dave,
            self.packets,
            gateway.resumes,
            gateway.close,
        )

    @property
    def packets(self) -> PacketCounts:
        return self._earlier_packets + self._packets

    @property
    def resumes(self) -> int:
        return self._gateway.resumes

    @property
    def new_sessions(self) -> int:
        return self._gateway.new_sessions

    @property
    def is_over(self) -> bool:
        return self._phase in (VoicePhase.CLOSED, VoicePhase.NONE)

    def give_up(self, reason: NodeReason) -> None:
        """Ends the connection by decision of the node."""
        self._do(self._gateway.fail(reason))

    async def leave(self) -> None:
        """Sends five frames of silence and the end of speaking, and closes in an orderly way. Returns when all is
        closed."""
        media, self._media = self._media, None
        if media is not None and not self.is_over:
            await media.finish()
        self._do(self._gateway.leave())
        await self._close()

    # A listener of the player

    def write(self, message: bytes) -> None:
        media = self._media
        if media is not None:
            self._say_speaking(is_speaking=True)
            media.frame(message)

    def offer(self, message: bytes) -> bool:
        self.write(message)
        return True

    def pending_bytes(self) -> int:
        return 0

    def close(self, code: int, reason: str) -> None:
        """Does nothing, because the player reports its end to its companion."""

    def abort(self) -> None:
        """As `close`."""

    # Reports of the socket

    def opened(self) -> None:
        self._do(self._gateway.opened())

    def failed(self, reason: NodeReason) -> None:
        self._do(self._gateway.dial_failed(self._loop.time(), reason))

    def text(self, text: str) -> None:
        self._do(self._gateway.text(self._loop.time(), text))

    def binary(self, message: bytes) -> None:
        self._do(self._gateway.binary(self._loop.time(), message))

    def pinged(self, size: int) -> None:
        self._do(self._gateway.pinged(self._loop.time(), size))

    def lost(self, code: int | None, text: str) -> None:
        own = self.credentials
        text = "" if own.token in text or own.session_id in text else text  # a server may send any text
        self._do(self._gateway.lost(self._loop.time(), code, text))

    # Reports of the media

    def say(self, message: bytes | tuple[int, Mapping[str, Any]]) -> None:
        self._do(self._gateway.say(message))

    def silent(self, frames: int) -> None:
        if self._media is None or frames == self._media.frames:
            self._say_speaking(is_speaking=False)

    def dave_changed(self, status: DaveStatus) -> None:
        self._dave = status
        self._tell()

    def counted(self, packets: PacketCounts) -> None:
        self._packets = packets
        self._tell()

    def process_lost(self) -> None:
        self._drop_media()
        self._do(self._gateway.new_session(self._loop.time()))

    # Orders

    def _do(self, orders: Orders) -> None:
        for order in orders:
            match order:
                case Dial():
                    self._drop_socket()
                    if self._gateway.phase is VoicePhase.CONNECTING:
                        self._early.clear()  # of a session that never began
                    self._socket = self._ways.dialler.dial(self._endpoint, self)
                case Say(message):
                    if self._socket is not None:
                        self._socket.send(message)
                case HangUp(code):
                    self._drop_socket(code)
                case Discover(ssrc, host, port):
                    self._begin_session(ssrc)
                    self._discovery = self._begin(self._discover(self._session, ssrc, host, port))
                case Describe(mode, key, dave_version):
                    self._dave = DaveStatus(dave_version)
                    self._begin(self._open_media(self._session, mode, key, dave_version))
                case Pass(op, data):
                    self._pass(op, data)
                case GiveUp():
                    self._begin(self._close())
                case _:
                    assert_never(order)
        self._set_timer()
        self._tell()

    def _say_speaking(self, *, is_speaking: bool) -> None:
        for order in self._gateway.speaking(is_speaking):
            if isinstance(order, Say) and self._socket is not None:
                self._socket.send(order.message)

    def _pass(self, op: int, data: Mapping[str, Any] | bytes) -> None:
        if self._media is not None:
            self._media.gateway(op, data)
        elif len(self._early) < _MOST_EARLY:
            self._early.append(Pass(op, data))

    def _begin_session(self, ssrc: int) -> None:
        self._session += 1
        self._ssrc = ssrc
        if self._discovery is not None:
            self._discovery.cancel()
        self._drop_media()

    def _drop_media(self) -> None:
        if self._udp is not None:
            self._udp.close()
        if self._media is not None:
            self._media.close()
        self._udp = self._media = None
        self._earlier_packets, self._packets = self.packets, PacketCounts()
        self._dave = DaveStatus()

    async def _discover(self, session: int, ssrc: int, host: str, port: int) -> None:
        try:
            self._ways.guard.check_address(host, port)
            udp = open_udp(host, port, self._ways.settings, self.udp_port)
        except AddressRefusedError:
            self._fail(session, NodeReason.ENDPOINT_BLOCKED)
            return
        except ValueError:
            self._fail(session, NodeReason.PROTOCOL)
            return
        except OSError as error:
            log.warning("a UDP socket to a voice server could not be opened: %s", error)
            self._fail(session, NodeReason.UDP_BLOCKED)
            return
        if not self._is_wanted(session):
            udp.close()
            return
        self._udp, self.udp_port = udp, udp.getsockname()[1]
        try:
            found: tuple[str, int] | None = await discover(udp, ssrc)
        except NoAnswer:
            found = None
        if session == self._session:
            gateway = self._gateway
            self._do(gateway.undiscovered(self._loop.time()) if found is None else gateway.discovered(*found))

    async def _open_media(self, session: int, mode: str, key: bytes, dave_version: int) -> None:
        udp, self._udp = self._udp, None
        if udp is None:
            return
        members = sum(_members_in(each) for each in self._early)
        target = self.target
        setting = MediaSetting(
            mode, key, self._ssrc, target.user_id, target.channel_id, dave_version, is_large=members >= _LARGE_CALL
        )
        try:
            media = await self._ways.processes.open(setting, udp, self)
        except VoiceProcessError as error:
            log.warning("%s", error)
            self._fail(session, NodeReason.NO_PROCESS)
            return
        if not self._is_wanted(session):
            media.close()
            return
        self._media = media
        early, self._early = self._early, []
        for each in early:
            media.gateway(each.op, each.data)
        if self.handshake_ms is None:
            self.handshake_ms = (self._loop.time() - self._begun_s) * 1000
        self._tell()

    def _is_wanted(self, session: int) -> bool:
        return session == self._session and not self.is_over

    def _fail(self, session: int, reason: NodeReason) -> None:
        if session == self._session:
            self._do(self._gateway.fail(reason))

    async def _close(self) -> None:
        """Closes everything that is still open."""
        self._session += 1
        self._drop_socket()
        self._drop_media()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._timer_due_s = None
        own = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not own]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _drop_socket(self, code: int | None = None) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.hang_up(1000 if code is None else code)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _set_timer(self) -> None:
        due_s = self._gateway.due_s
        if due_s == self._timer_due_s:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_s = due_s
        self._timer = None if due_s is None else self._loop.call_at(due_s, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_due_s = None
        self._do(self._gateway.tick(self._loop.time()))

    def _tell(self) -> None:
        phase = self._gateway.phase
        if phase in (VoicePhase.CONNECTED, VoicePhase.RESUMING) and self._media is None:
            phase = VoicePhase.CONNECTING  # until the media can send
        if phase is not self._phase:
            self._phase, self._since_ms = phase, self._ways.wall_ms()
        self._changed()


def _members_in(told: Pass) -> int:
    users = told.data.get("user_ids") if told.op == 11 and not isinstance(told.data, bytes) else None
    return len(users) if isinstance(users, list) else 0

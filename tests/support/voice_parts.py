"""What a voice connection is made of, by stand-ins: sockets and media on which the test says what happens. The packets
of discovery are real."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.support.eventually import Changes
from tonearm.core.metadata import Json
from tonearm.core.voice import VoiceEndpoint, VoiceSettings, VoiceStatus
from tonearm.core.voice_gateway import MODES
from tonearm.player.clients.sinks import Companion, FrameSink
from tonearm.voice.gateway import SocketReports
from tonearm.voice.media import MediaFigures, MediaReports
from tonearm.voice.messages import MediaSetting

SETTINGS: Final = VoiceSettings(("127.0.0.1",), private_networks=True)
_DISCOVERY: Final = struct.Struct(">HHI64sH")


class FakeSocket:
    """A socket to a voice server. `said` is what the node says, `hung_up` its code."""

    def __init__(self, endpoint: VoiceEndpoint, reports: SocketReports, changes: Changes) -> None:
        self.endpoint = endpoint
        self.reports = reports
        self.said: list[str | bytes] = []
        self.hung_up: int | None = None
        self._changes = changes

    def send(self, message: str | bytes) -> None:
        self.said.append(message)
        self._changes.tell()

    def hang_up(self, code: int) -> None:
        self.hung_up = code
        self._changes.tell()


class FakeMedia:
    """`frames` is how many it was given, `told` what it was told of the call."""

    def __init__(self, setting: MediaSetting, reports: MediaReports) -> None:
        self.setting = setting
        self.reports = reports
        self.frames = 0
        self.told: list[tuple[int, Any]] = []
        self.is_closed = False

    def frame(self, packet: bytes) -> None:
        self.frames += 1

    def gateway(self, op: int, data: Any) -> None:
        self.told.append((op, data))

    async def finish(self) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True


class FakePlayer:
    """A player to which a voice listens. `sinks` are attached, `shown` is each status."""

    player_id = "p"

    def __init__(self) -> None:
        self.sinks: list[FrameSink] = []
        self.shown: list[VoiceStatus] = []
        self.records: list[Json] = []

    def accompany(self, name: str, companion: Companion) -> Callable[[], None]:
        self.records.append(companion.record())
        return lambda: None

    def attach(self, sink: FrameSink, *, is_voice: bool) -> Callable[[], None]:
        assert is_voice
        self.sinks.append(sink)
        return lambda: self.sinks.remove(sink)

    def voice_changed(self, status: VoiceStatus) -> None:
        self.shown.append(status)


class VoiceParts(asyncio.DatagramProtocol):
    """All stand-ins of a node; it is also its own dialler and its own voice processes. `fault` is raised in place of
    media."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.sockets: list[FakeSocket] = []
        self.media: list[FakeMedia] = []
        self.fault: Exception | None = None
        self.may_open = asyncio.Event()
        self.may_open.set()
        self.answers_discovery = True
        self.asked = 0  # how many packets of discovery came
        self._udp: asyncio.DatagramTransport | None = None

    # As the dialler

    def dial(self, endpoint: VoiceEndpoint, reports: SocketReports) -> FakeSocket:
        socket = FakeSocket(endpoint, reports, self.changes)
        self.sockets.append(socket)
        self.changes.tell()
        return socket

    async def close(self) -> None:
        pass

    # As the processes

    def prepare(self) -> None:
        pass

    async def open(self, setting: MediaSetting, udp: socket.socket, reports: MediaReports) -> FakeMedia:
        with udp:
            await self.may_open.wait()
            if self.fault is not None:
                raise self.fault
            media = FakeMedia(setting, reports)
            self.media.append(media)
            self.changes.tell()
            return media

    def figures(self) -> MediaFigures:
        return MediaFigures((), 0, {}, 0.0)

    async def stop(self) -> None:
        pass

    # As the voice server

    def connection_made(self, transport: Any) -> None:
        self._udp = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        assert self._udp is not None
        self.asked += 1
        self.changes.tell()
        if not self.answers_discovery:
            return
        _, length, ssrc, _, _ = _DISCOVERY.unpack(data)
        self._udp.sendto(_DISCOVERY.pack(2, length, ssrc, address[0].encode(), address[1]), address)

    def ready(self, number: int) -> None:
        """Takes the Identify of the socket of this number, from 0."""
        assert self._udp is not None
        host, port = self._udp.get_extra_info("sockname")
        reports = self.sockets[number].reports
        reports.opened()
        say(reports, 8, {"heartbeat_interval": 600_000})
        say(reports, 2, {"ssrc": 7 + number, "ip": host, "port": port, "modes": list(MODES)})

    async def selected(self, number: int) -> None:
        """Returns when it has said how it sends."""
        said = self.sockets[number].said
        await self.changes.until(lambda: any('"op":1,' in str(each) for each in said), lambda: f"Select in {said}")

    async def describe(self, number: int, dave_version: int = 0) -> None:
        """Takes the Identify, and describes the session."""
        self.ready(number)
        await self.selected(number)
        self.say_description(number, dave_version)

    def say_description(self, number: int, dave_version: int = 0) -> None:
        description = {"mode": MODES[0], "secret_key": [0] * 32, "dave_protocol_version": dave_version}
        say(self.sockets[number].reports, 4, description)


def say(reports: SocketReports, op: int, data: Any) -> None:
    reports.text(json.dumps({"op": op, "d": data}))


@asynccontextmanager
async def voice_parts() -> AsyncIterator[VoiceParts]:
    parts = VoiceParts()
    udp, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: parts, ("127.0.0.1", 0))
    try:
        yield parts
    finally:
        udp.close()

"""Discord's side of a voice connection, for discord.py's own `VoiceClient`: voice gateway v8, UDP discovery, and the
packets that arrive, decrypted (aead_xchacha20_poly1305_rtpsize).

docs.discord.com, "Voice Connections". End-to-end encryption (DAVE) is not offered: the client encrypts packets, no
source sees it.
"""

import asyncio
import json
import os
import struct
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any, Final, cast
from unittest.mock import AsyncMock, patch

import aiohttp
import discord
import nacl.secret
from aiohttp import web

from tests.support.serving import serving

_MODE: Final = "aead_xchacha20_poly1305_rtpsize"
_SSRC: Final = 4711
_RTP_BYTES: Final = 12
_NONCE_BYTES: Final = 4


class FakeVoice(asyncio.DatagramProtocol):
    """What the channel hears: `packets` of Opus, and the RTP `timestamps` of them."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []
        self.timestamps: list[int] = []
        self.channel: Any = None
        self._key = os.urandom(32)
        self._udp: asyncio.DatagramTransport | None = None
        self._came = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._udp = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        assert self._udp is not None
        if data[:2] == b"\x00\x01":  # asks for its own address
            answer = b"\x00\x02" + data[2:8] + address[0].encode().ljust(64, b"\x00") + struct.pack(">H", address[1])
            self._udp.sendto(answer, address)
        elif data[:2] == b"\x80\x78":
            nonce = data[-_NONCE_BYTES:].ljust(24, b"\x00")
            box = nacl.secret.Aead(self._key)
            self.packets.append(box.decrypt(data[_RTP_BYTES:-_NONCE_BYTES], data[:_RTP_BYTES], nonce))
            self.timestamps.append(struct.unpack_from(">I", data, 4)[0])
            self._came.set()

    async def heard(self, count: int, *, silence: bool = False) -> list[bytes]:
        """The next `count` packets, of silence only with `silence`."""
        start = len(self.packets)
        while True:
            new = [packet for packet in self.packets[start:] if silence or packet != b"\xf8\xff\xfe"]
            if len(new) >= count:
                return new[:count]
            self._came.clear()
            await self._came.wait()

    async def gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        assert self._udp is not None
        host, port = self._udp.get_extra_info("sockname")
        await socket.send_json({"op": 8, "d": {"heartbeat_interval": 5000}})
        async for message in socket:
            match json.loads(message.data)["op"] if message.type is aiohttp.WSMsgType.TEXT else None:
                case 0:
                    ready = {"ssrc": _SSRC, "ip": host, "port": port, "modes": [_MODE]}
                    await socket.send_json({"op": 2, "d": ready})
                case 1:
                    session = {"mode": _MODE, "secret_key": list(self._key), "dave_protocol_version": 0}
                    await socket.send_json({"op": 4, "d": session})
                case 3:
                    await socket.send_json({"op": 6, "d": {"t": 0}})
        return socket


class FakeGuild:
    """Answers the change of a voice state as Discord's main gateway does."""

    def __init__(self, voice: FakeVoice) -> None:
        self.id = 1
        self._voice = voice
        self.me = SimpleNamespace(voice=None)

    @property
    def voice_client(self) -> discord.VoiceClient | None:
        client: discord.VoiceClient | None = self._voice.channel.voice_client
        return client

    async def change_voice_state(self, *, channel: Any, self_mute: bool = False, self_deaf: bool = False) -> None:
        client = self._voice.channel.voice_client
        if client is None:
            return
        state = {"channel_id": None if channel is None else channel.id, "session_id": "s"}
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: asyncio.ensure_future(client.on_voice_state_update(state)))
        if channel is not None:
            server = {"token": "t", "guild_id": self.id, "endpoint": "voice.example"}
            loop.call_soon(lambda: asyncio.ensure_future(client.on_voice_server_update(server)))


class FakeChannel(discord.abc.Connectable):
    """A voice channel of a guild; `connect` is discord.py's own."""

    def __init__(self, voice: FakeVoice, port: int, session: aiohttp.ClientSession) -> None:
        self.id = 2
        self.guild = FakeGuild(voice)
        self.members = [SimpleNamespace(bot=True), SimpleNamespace(bot=False)]
        self.voice_client: discord.VoiceClient | None = None
        voice.channel = self

        async def ws_connect(url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
            return await session.ws_connect(f"http://127.0.0.1:{port}/")

        def add(key: int, client: discord.VoiceClient) -> None:
            self.voice_client = client
            # The thread that reads for discord.py pauses when it begins: for ever if it is late, and somebody waits for
            # bytes already.
            while client._connection._socket_reader._idle_paused:
                time.sleep(0.001)

        self._state: Any = SimpleNamespace(
            loop=asyncio.get_running_loop(),
            user=SimpleNamespace(id=3),
            http=SimpleNamespace(ws_connect=ws_connect),
            _get_voice_client=lambda key: self.voice_client,
            _get_client=lambda: SimpleNamespace(_connection=self._state, loop=self._state.loop),
            _add_voice_client=add,
            _remove_voice_client=lambda key: setattr(self, "voice_client", None),
        )

    def _get_voice_client_key(self) -> tuple[int, str]:
        return self.guild.id, "guild_id"

    def _get_voice_state_pair(self) -> tuple[int, int]:
        return self.guild.id, self.id


class FakeInteraction:
    """An interaction as discord.py gives it to a command; `said` is what the user reads."""

    def __init__(self, channel: Any) -> None:
        self.said: list[str] = []
        self.guild_id = 1
        self.user = SimpleNamespace(id=5, voice=SimpleNamespace(channel=channel))
        self.response = SimpleNamespace(defer=self._defer, send_message=self._send)
        self.followup = SimpleNamespace(send=self._send)

    async def _defer(self) -> None:
        pass

    async def _send(self, text: str) -> None:
        self.said.append(text)


@asynccontextmanager
async def fake_voice() -> AsyncIterator[FakeVoice]:
    voice = FakeVoice()
    application = web.Application()
    application.router.add_get("/", voice.gateway)
    async with serving(application) as port, aiohttp.ClientSession() as session:
        udp, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: voice, ("127.0.0.1", 0))
        try:
            FakeChannel(voice, port, session)
            try:
                yield voice
            finally:  # or its threads would outlive the test
                if voice.channel.voice_client is not None:
                    await voice.channel.voice_client.disconnect(force=True)
        finally:
            udp.close()


@contextmanager
def without_discord() -> Iterator[list[str]]:
    """Discord is not asked for anything: what the commands of a bot are is told to nobody, and a bot that runs ends at
    once. Its token is in the list."""
    tokens: list[str] = []
    with (
        patch.object(discord.app_commands.CommandTree, "sync", AsyncMock()),
        patch.object(discord.Client, "run", lambda _, token: tokens.append(token)),
    ):
        yield tokens

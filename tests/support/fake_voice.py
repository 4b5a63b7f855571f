"""A guild for discord.py's own `VoiceClient`, whose voice server is that of the other tests, without end-to-end
encryption: the client encrypts packets, no source sees it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, patch

import aiohttp
import discord

from tests.support.voice_server import Packet, VoiceServer, voice_server


class FakeVoice:
    """What the channel hears."""

    def __init__(self, server: VoiceServer) -> None:
        self.channel: Any = None
        self._server = server

    @property
    def packets(self) -> list[Packet]:
        return [packet for session in self._server.sessions for packet in session.packets]

    async def heard(self, count: int, *, silence: bool = False) -> list[bytes]:
        """The next `count` packets of Opus, of silence only with `silence`."""
        start = len(self.packets)

        def new() -> list[bytes]:
            return [packet.payload for packet in self.packets[start:] if silence or not packet.is_silence]

        await self._server.changes.until(lambda: len(new()) >= count, lambda: f"{count} packets, not {len(new())}")
        return new()[:count]


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

    def __init__(self, voice: FakeVoice, endpoint: str, session: aiohttp.ClientSession) -> None:
        self.id = 2
        self.guild = FakeGuild(voice)
        self.members = [SimpleNamespace(bot=True), SimpleNamespace(bot=False)]
        self.voice_client: discord.VoiceClient | None = None
        voice.channel = self

        async def ws_connect(url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
            return await session.ws_connect(f"http://{endpoint}/?v=8")

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
    async with voice_server(None) as server, aiohttp.ClientSession() as session:
        voice = FakeVoice(server)
        FakeChannel(voice, server.endpoint, session)
        try:
            yield voice
        finally:  # or its threads would outlive the test
            if voice.channel.voice_client is not None:
                await voice.channel.voice_client.disconnect(force=True)


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

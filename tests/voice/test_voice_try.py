"""`make voice-try`, with a stand-in for Discord's main gateway and the voice server of these tests."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import WSMsgType, web

from tests.support.serving import serving
from tests.support.voice_players import SESSION, TOKEN
from tests.support.voice_server import VoiceServer, voice_server

BOT_TOKEN = "the-token-of-the-bot"


@asynccontextmanager
async def main_gateway(server: VoiceServer, asked: list[object]) -> AsyncIterator[str]:
    """Discord's gateway for bots, as far as a bot with one voice needs it. Notes what it was asked for."""

    async def gateway(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": 45_000}})
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                continue
            said = message.json()
            asked.append(said)
            if said["op"] == 2:
                await socket.send_json({"op": 0, "t": "READY", "s": 1, "d": {"user": {"id": "3"}}})
            elif said["op"] == 4:
                channel = said["d"]["channel_id"]
                state = {"guild_id": "1", "user_id": "3", "channel_id": channel, "session_id": SESSION}
                await socket.send_json({"op": 0, "t": "VOICE_STATE_UPDATE", "s": 2, "d": state})
                if channel is not None:
                    there = {"guild_id": "1", "token": TOKEN, "endpoint": server.endpoint}
                    await socket.send_json({"op": 0, "t": "VOICE_SERVER_UPDATE", "s": 3, "d": there})
        return socket

    application = web.Application()
    application.router.add_get("/", gateway)
    async with serving(application) as port:
        yield f"ws://127.0.0.1:{port}/"


async def test_a_try_joins_plays_leaves_and_says_what_it_saw(certificate: Path) -> None:
    asked: list[object] = []
    variables = {
        "DISCORD_TOKEN": BOT_TOKEN,
        "SSL_CERT_FILE": str(certificate),
        "TONEARM_VOICE__ENDPOINTS": '["127.0.0.1"]',
        "TONEARM_VOICE__PRIVATE_NETWORKS": "true",
    }
    async with voice_server(certificate, ears=(5,)) as server, main_gateway(server, asked) as gateway:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tools.voice_try", "--guild", "1", "--channel", "2"),
            *("--seconds", "3", "--gateway", gateway),
            env={**os.environ, **variables},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, problems = (text.decode() for text in await process.communicate())
    assert process.returncode == 0, said + problems
    assert "the bot is 3" in said
    assert "connected; encryption aead_aes256_gcm_rtpsize, end to end ready" in said
    assert "packets were sent, 0 dropped" in said
    assert "privacy code" in said
    assert not problems
    for secret in (BOT_TOKEN, TOKEN, SESSION):
        assert secret not in said
    assert [each["d"]["channel_id"] for each in asked if isinstance(each, dict) and each["op"] == 4] == ["2", None]

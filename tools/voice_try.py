"""`make voice-try GUILD=… CHANNEL=…`: one try on Discord's own servers, with a real bot, by a person.

Joins a voice channel with the bot whose token is in DISCORD_TOKEN, plays music there for SECONDS, leaves, and says what
it saw: each state of the voice, with times. It shows no token. The node is the one of `--node`, or one that it starts
in this folder. Discord's main gateway: docs.discord.com, "Gateway"; what a bot passes on: docs/voice.md.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import yarl

from tonearm.client import Node, TonearmError, Voice, VoiceLink, VoiceState
from tools.own_node import start_node

GATEWAY: Final = "wss://gateway.discord.gg/?v=10&encoding=json"
PLAYER: Final = "voice-try"
_VOICE_STATES: Final = 1 << 7  # the only events that are asked for
_READY_WITHIN_S: Final = 20.0
_LOOKS_EVERY_S: Final = 0.2
_CLIP: Final = Path(__file__).parents[1] / "src" / "tonearm" / "clips" / "welcome.opus"


class Gateway:
    """The bot's connection to Discord's main gateway."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, token: str) -> None:
        self._socket = socket
        self._token = token
        self._sequence: int | None = None
        self._beating: asyncio.Task[None] | None = None
        self.user_id = ""
        self.link: VoiceLink | None = None

    async def begin(self) -> None:
        """Returns when the bot is known. Raises SystemExit where Discord does not let it in."""
        hello = await self._next()
        self._beating = asyncio.get_running_loop().create_task(self._beat(hello["d"]["heartbeat_interval"] / 1000))
        properties = {"os": "linux", "browser": "tonearm", "device": "tonearm"}
        await self.send(2, {"token": self._token, "intents": 1 | _VOICE_STATES, "properties": properties})
        while not self.user_id:
            message = await self._next()
            if message["t"] == "READY":
                self.user_id = message["d"]["user"]["id"]
            elif message["op"] == 9:
                raise SystemExit("Discord did not accept the session: is DISCORD_TOKEN that of a bot?")

    async def follow(self) -> None:
        """Gives the events of voices to `link`, for ever."""
        while True:
            message = await self._next()
            if self.link is not None:
                await self.link.take(message)

    async def move(self, guild: str, channel: str | None) -> None:
        """Asks for a voice channel of this guild, or for none."""
        fields = {"guild_id": guild, "channel_id": channel, "self_mute": False, "self_deaf": True}
        await self.send(4, fields)

    async def send(self, op: int, data: Any) -> None:
        await self._socket.send_json({"op": op, "d": data})

    def end(self) -> None:
        if self._beating is not None:
            self._beating.cancel()

    async def _beat(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            await self.send(1, self._sequence)

    async def _next(self) -> dict[str, Any]:
        message = await self._socket.receive()
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise SystemExit(f"Discord closed the bot's connection: {self._socket.close_code} {message.extra or ''}")
        fields: dict[str, Any] = json.loads(message.data)
        self._sequence = fields.get("s") or self._sequence
        return fields


class Report:
    """What was seen, a line each, with the seconds since the begin."""

    def __init__(self) -> None:
        self._begun_s = time.monotonic()

    def say(self, text: str) -> None:
        sys.stdout.write(f"{time.monotonic() - self._begun_s:6.2f} s  {text}\n")
        sys.stdout.flush()

    def voice(self, event: VoiceState) -> None:
        voice = event.voice
        if voice is None:
            self.say("no voice any more")
            return
        told = f"{voice.state}; encryption {voice.mode}, end to end {'ready' if voice.dave.ready else 'not ready'}"
        if voice.close is not None:
            told += f"; closed by {voice.close.by}: {voice.close.code} {voice.close.reason} → {voice.close.action}"
        self.say(told)


@contextlib.asynccontextmanager
async def _own_node(folder: Path) -> AsyncIterator[str]:
    """The address of a node that ends with this."""
    process, address = await start_node(folder, "[voice]\nenabled = true\n")
    try:
        yield address
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def try_voice(
    token: str, guild: str, channel: str, *, node_url: str, seconds: float, gateway: str, uri: str, report: Report
) -> bool:
    """Whether the channel could hear it. Raises `TonearmError` and SystemExit."""
    address = yarl.URL(gateway, encoded=True)
    async with (
        Node(node_url) as node,
        aiohttp.ClientSession() as session,
        session.ws_connect(address, max_msg_size=0) as socket,
    ):
        discord = Gateway(socket, token)
        await discord.begin()
        report.say(f"the bot is {discord.user_id}")
        player = await node.create_player(PLAYER, uri)
        player.on(VoiceState, report.voice)
        discord.link = player.join_voice(guild, discord.user_id)
        following = asyncio.get_running_loop().create_task(discord.follow())
        try:
            await discord.move(guild, channel)
            return await _heard(discord.link, seconds, report)
        finally:
            with contextlib.suppress(aiohttp.ClientError, ConnectionError):
                await discord.move(guild, None)
            following.cancel()
            discord.end()
            await player.delete()


async def _heard(link: VoiceLink, seconds: float, report: Report) -> bool:
    """Whether packets were sent, `seconds` after the channel could hear them."""
    voice: Voice | None = await link.ready(_READY_WITHIN_S)
    assert voice is not None
    if voice.state != "connected":
        report.say(f"it could not be joined: {voice.state}, {voice.close}")
        return False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_READY_WITHIN_S):
            while voice is not None and voice.dave.version and not voice.dave.ready:
                await asyncio.sleep(_LOOKS_EVERY_S)
                voice = await link.status()
    await asyncio.sleep(seconds)
    shown = await link.status()
    if shown is None:
        report.say("the voice was gone at the end")
        return False
    packets = shown.packets
    report.say(f"{packets.sent} packets were sent, {packets.dropped} dropped; ping {shown.ping_ms} ms")
    report.say(f"privacy code {shown.dave.privacy_code}: it must be the one that Discord shows under the lock")
    if shown.dave.version and not shown.dave.ready:
        report.say("nobody else was in the channel, so nothing could be encrypted for anybody: join it, and try again")
    return packets.sent > 0


async def _main(arguments: argparse.Namespace, token: str) -> bool:
    report = Report()
    async with contextlib.AsyncExitStack() as stack:
        url, uri = arguments.node, arguments.uri
        if not url:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            (folder / "welcome.opus").write_bytes(_CLIP.read_bytes())
            url = await stack.enter_async_context(_own_node(folder))
            uri = uri or "welcome.opus"
        try:
            return await try_voice(
                *(token, arguments.guild, arguments.channel),
                node_url=url,
                seconds=arguments.seconds,
                gateway=arguments.gateway,
                uri=uri or str(_CLIP),
                report=report,
            )
        except (TonearmError, TimeoutError, aiohttp.ClientError) as error:
            report.say(f"it failed: {type(error).__name__}: {error}")
            return False


def main() -> None:
    parser = argparse.ArgumentParser(prog="make voice-try", description=__doc__.partition("\n\n")[2])
    parser.add_argument("--guild", required=True, help="the id of the server (guild)")
    parser.add_argument("--channel", required=True, help="the id of a voice channel in it")
    parser.add_argument("--node", default="", help="a node that runs; else one is started")
    parser.add_argument("--uri", default="", help="what it plays; else the welcome clip")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--gateway", default=GATEWAY, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    token = os.environ.get("DISCORD_TOKEN", "")
    if not token:
        raise SystemExit("The bot's token must be in the variable DISCORD_TOKEN.")
    sys.exit(0 if asyncio.run(_main(arguments, token)) else 1)


if __name__ == "__main__":
    main()

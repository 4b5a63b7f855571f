"""A player's voice in a Discord channel. It follows the bot's gateway events and sends the node where the bot is."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from tonearm.client.tracks import read
from tonearm.protocol.replies import NoVoice, Voice

_EVENTS: Final = ("VOICE_STATE_UPDATE", "VOICE_SERVER_UPDATE")
_AGAIN_AFTER_S: Final = 0.25  # without a voice the node answers at once
_ANSWER: Final[TypeAdapter[Voice | NoVoice]] = TypeAdapter(Voice | NoVoice)


class VoiceLink:
    """Takes the events of a bot's gateway and makes the node follow them: into a channel, to another channel or voice
    server, and out. `Player.join_voice` creates it."""

    def __init__(
        self, send: Callable[..., Awaitable[Any]], guild_id: int | str, user_id: int | str, bitrate: int | None
    ) -> None:
        self._send = send
        self._ids = {"guildId": str(guild_id), "userId": str(user_id)}
        self._bitrate = {} if bitrate is None else {"bitrate": bitrate}
        self._state: dict[str, str] = {}  # of the newest VOICE_STATE_UPDATE of the bot
        self._server: dict[str, str | None] = {}  # of the newest VOICE_SERVER_UPDATE
        self._is_ahead = False  # it may belong to a channel of which the gateway has yet to tell
        self._sending = asyncio.Lock()
        self._joined = asyncio.Event()

    async def take(self, event: object) -> None:
        """Takes any event of the gateway: JSON text, an object with `t` and `d`, the `d` alone, or an object that has
        it as `payload`. Events about other users are ignored. Raises `TonearmError` if the node refuses the event."""
        data = _data_of(event)
        if data is None or str(data.get("guild_id")) != self._ids["guildId"]:
            return
        if "token" in data and "endpoint" in data:
            self._is_ahead = bool(self._state) and self._server.get("endpoint") is not None
            self._server = {"token": data["token"], "endpoint": data["endpoint"]}
        elif "session_id" in data and str(data.get("user_id")) == self._ids["userId"]:
            if data.get("channel_id") is None:
                await self.leave()
                return
            state = {"sessionId": data["session_id"], "channelId": str(data["channel_id"])}
            if self._state and self._state != state and not self._is_ahead:  # a token holds for one channel and session
                self._server = {}
                self._joined.clear()
            self._state, self._is_ahead = state, False
        else:
            return
        await self._put()

    async def ready(self, within_s: float = 10.0) -> Voice:
        """Waits until the voice has joined or failed, and returns it: `state` says which. Raises `TimeoutError` if the
        gateway does not send the needed events in time, or the voice server does not answer."""
        async with asyncio.timeout(within_s):
            while True:
                await self._joined.wait()
                voice = await self._shown("?wait=1000")
                if voice is None:  # it has just left
                    await asyncio.sleep(_AGAIN_AFTER_S)
                elif voice.state != "connecting" and self._joined.is_set():  # else it moves
                    return voice

    async def status(self) -> Voice | None:
        """The state of the voice. None without a voice."""
        return await self._shown("")

    async def leave(self) -> None:
        """Leaves the channel. Earlier events of the gateway do not count any more."""
        self._state, self._server = {}, {}
        self._joined.clear()
        async with self._sending:
            await self._send("DELETE", "voice")

    async def _put(self) -> None:
        async with self._sending:  # The node must get the newest values last.
            if self._state and self._server:
                await self._send("PUT", "voice", {**self._ids, **self._state, **self._server, **self._bitrate})
                if self._server:
                    self._joined.set()

    async def _shown(self, query: str) -> Voice | None:
        voice = read(_ANSWER, await self._send("GET", f"voice{query}"))
        return voice if isinstance(voice, Voice) else None


def _data_of(event: object) -> Mapping[str, Any] | None:
    """The fields of a gateway event. None if the event is not about voice."""
    event = getattr(event, "payload", event)
    if isinstance(event, str | bytes):
        if not any(name in event if isinstance(event, str) else name.encode() in event for name in _EVENTS):
            return None
        try:
            event = json.loads(event)
        except ValueError:
            return None
    if not isinstance(event, Mapping):
        return None
    if "d" in event and "op" in event:
        event = event["d"] if event.get("t") in _EVENTS else None
    return event if isinstance(event, Mapping) else None

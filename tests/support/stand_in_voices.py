"""Voices of a node that connect to nothing: a test says how they are doing."""

import asyncio
from contextlib import suppress
from dataclasses import replace

from tonearm.core.errors import EndpointBlocked, VoiceTaken
from tonearm.core.metadata import Json
from tonearm.core.voice import (
    NodeReason,
    VoiceCredentials,
    VoiceFigures,
    VoicePhase,
    VoiceStatus,
    VoiceTarget,
    closed_for,
    record_of,
)
from tonearm.player.player import VOICE, Player
from tonearm.protocol.framing import CloseCode


class StandInVoice:
    """One voice, beside its player."""

    def __init__(self, player: Player, target: VoiceTarget) -> None:
        self._player = player
        self.status = VoiceStatus(VoicePhase.CONNECTING, target, since_ms=1)
        self.settled = asyncio.Event()
        self.leave = player.accompany(VOICE, self)

    def becomes(self, phase: VoicePhase, **fields: object) -> None:
        self.status = replace(self.status, phase=phase, **fields)  # type: ignore[arg-type]
        if phase is not VoicePhase.CONNECTING:
            self.settled.set()
        self._player.voice_changed(self.status)

    def record(self) -> Json:
        return record_of(self.status.target)

    def player_ended(self, code: CloseCode) -> None:
        self.settled.set()


class StandInVoices:
    """Notes the credentials of each player."""

    def __init__(self) -> None:
        self.of: dict[str, StandInVoice] = {}
        self.credentials: dict[str, VoiceCredentials] = {}
        self.is_stopped = False

    def check(self, player_id: str, target: VoiceTarget) -> None:
        if target.endpoint is not None and "evil" in target.endpoint.host:
            raise EndpointBlocked("The node dials no such host; voice.endpoints names those that it does.")
        for other in self.of.keys() - {player_id}:
            raise VoiceTaken(f"The player {other!r} speaks for this bot in this guild.")

    def put(self, player: Player, target: VoiceTarget, credentials: VoiceCredentials) -> None:
        self.check(player.player_id, target)
        self.credentials[player.player_id] = credentials
        voice = self.of[player.player_id] = StandInVoice(player, target)
        voice.becomes(VoicePhase.CONNECTING)
        if target.endpoint is None:
            voice.becomes(VoicePhase.CLOSED, close=closed_for(NodeReason.ENDPOINT_GONE))

    def leave(self, player_id: str) -> None:
        voice = self.of.pop(player_id, None)
        if voice is not None:
            voice.leave()
            voice.becomes(VoicePhase.NONE)

    async def settled(self, player_id: str, within_s: float) -> VoiceStatus | None:
        voice = self.of.get(player_id)
        if voice is None:
            return None
        with suppress(TimeoutError):
            await asyncio.wait_for(voice.settled.wait(), within_s)
        return voice.status

    def figures(self) -> VoiceFigures:
        return VoiceFigures()

    async def stop(self) -> None:
        self.is_stopped = True

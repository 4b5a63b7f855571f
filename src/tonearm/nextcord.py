"""A player in a voice channel of Discord, for nextcord: see docs/discord.md."""

import nextcord

from tonearm.client import Node, Playable
from tonearm.core.json_value import Json
from tonearm.voice.joining import Connectable, VoicePlayer, dispatch, join_with
from tonearm.voice.source import FrameSource

__all__ = ["Source", "VoicePlayer", "dispatch", "join"]


class Source(FrameSource, nextcord.AudioSource):  # type: ignore[misc]  # the library is not installed here
    """What a player plays: `voice_client.play(await Source(player).ready())`."""


async def join(
    channel: Connectable,
    node: Node,
    track: Playable | None = None,
    *,
    player_id: str | None = None,
    leave_after_s: float | None = 300.0,
    metadata: Json = None,
) -> VoicePlayer:
    """Connects to `channel` and plays `track` there, or waits for one. The player is named for the channel, unless
    `player_id` names it; it leaves a channel that has had no people in it for so long.

    Raises what the library's `connect` raises, and `ApiError` and `ConnectError`; then the channel is left again.
    """
    return await join_with(
        Source, channel, node, track, player_id=player_id, leave_after_s=leave_after_s, metadata=metadata
    )

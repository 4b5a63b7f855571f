"""The Python client for asyncio. It uses the public HTTP and WebSocket interface of a node and nothing else.

from tonearm.client import Node

async with Node("http://127.0.0.1:2333") as node:
    player = await node.create_player("lobby", "song.flac")
    async for event in player.events():
        print(event)
"""

from tonearm.client.audio import AudioStream, Frame
from tonearm.client.errors import (
    ApiError,
    BadRequest,
    Conflict,
    ConnectError,
    Forbidden,
    LimitReached,
    NodeFailed,
    NotFound,
    PlayerExists,
    PlayerNotFound,
    TonearmError,
    Unauthorized,
)
from tonearm.client.events import (
    Disconnected,
    Event,
    EventStream,
    Place,
    PlayerGone,
    QueueEnd,
    Reconnected,
    UnknownEvent,
)
from tonearm.client.filters import PRESETS
from tonearm.client.node import Node
from tonearm.client.player import Player
from tonearm.client.tracks import Metadata, Playable, Queue, Track
from tonearm.client.voice import VoiceLink
from tonearm.core.events import PlayerState as State
from tonearm.core.play_queue import EndReason, LoopMode
from tonearm.protocol.events import (
    CrossfadeChange,
    EventsLost,
    FiltersChange,
    ListenersChange,
    LoopModeChange,
    MetadataChange,
    OverlayEnd,
    OverlayException,
    OverlayStart,
    PlayerCreate,
    PlayerDelete,
    PlayerMoved,
    PlayerPause,
    PlayerResume,
    PlayerState,
    PlayerUpdate,
    QueueDetails,
    QueueUpdate,
    Seek,
    SeekFailed,
    StreamTitle,
    TrackEnd,
    TrackException,
    TrackStart,
    TrackStuck,
    VoiceState,
)
from tonearm.protocol.replies import NodeInfo, PlayedTrack, QueuedTrackDetails, SentSound, Stats, Voice

__all__ = [
    "PRESETS",
    "ApiError",
    "AudioStream",
    "BadRequest",
    "Conflict",
    "ConnectError",
    "CrossfadeChange",
    "Disconnected",
    "EndReason",
    "Event",
    "EventStream",
    "EventsLost",
    "FiltersChange",
    "Forbidden",
    "Frame",
    "LimitReached",
    "ListenersChange",
    "LoopMode",
    "LoopModeChange",
    "Metadata",
    "MetadataChange",
    "Node",
    "NodeFailed",
    "NodeInfo",
    "NotFound",
    "OverlayEnd",
    "OverlayException",
    "OverlayStart",
    "Place",
    "Playable",
    "PlayedTrack",
    "Player",
    "PlayerCreate",
    "PlayerDelete",
    "PlayerExists",
    "PlayerGone",
    "PlayerMoved",
    "PlayerNotFound",
    "PlayerPause",
    "PlayerResume",
    "PlayerState",
    "PlayerUpdate",
    "Queue",
    "QueueDetails",
    "QueueEnd",
    "QueueUpdate",
    "QueuedTrackDetails",
    "Reconnected",
    "Seek",
    "SeekFailed",
    "SentSound",
    "State",
    "Stats",
    "StreamTitle",
    "TonearmError",
    "Track",
    "TrackEnd",
    "TrackException",
    "TrackStart",
    "TrackStuck",
    "Unauthorized",
    "UnknownEvent",
    "Voice",
    "VoiceLink",
    "VoiceState",
]

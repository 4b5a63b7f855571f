"""Tracks, failures and states of players for tests."""

import json
from dataclasses import replace

from tonearm.core.crossfade import CrossfadeSettings
from tonearm.core.events import PlayerState
from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.filters import Filters
from tonearm.core.metadata import Json
from tonearm.core.play_queue import LoopMode
from tonearm.core.player_status import PlayerQuality, PlayerStatus
from tonearm.core.source_uri import parse_source_uri
from tonearm.core.track import Track

FILE_MISSING = PlayFailure(FailureCode.FILE_MISSING, Stage.CONNECT, "There is no such file.", "Check the path.")
CONNECTION_LOST = PlayFailure(FailureCode.CONNECTION_LOST, Stage.READ, "The connection broke.", "Try again later.")


def make_track(name: str, metadata: Json | None = None, *, lists: tuple[str, ...] = ()) -> Track:
    """A track with the id `name`, as it is before its source was opened."""
    uri = parse_source_uri(f"http://radio.example/{name}.mp3")
    text = json.dumps({} if metadata is None else metadata).encode()
    return replace(Track.create(name, uri, text), lists=lists)


def make_status(
    player_id: str, track: Track | None = None, metadata: Json | None = None, *, last_seq: int = 0
) -> PlayerStatus:
    """The state of a player that was just created."""
    return PlayerStatus(
        player_id=player_id,
        life="1ife",
        track=track or make_track("a"),
        state=PlayerState.LOADING,
        error=None,
        paused=False,
        position_ms=0,
        filters=Filters(),
        crossfade=CrossfadeSettings(),
        overlays=(),
        loop_mode=LoopMode.NONE,
        queue_length=0,
        metadata={} if metadata is None else metadata,
        listeners=0,
        listeners_by_format={},
        last_seq=last_seq,
        quality=PlayerQuality(
            frames_sent=0, frames_lost=0, underruns=0, late_plans=0, frames_left_out=0, decoder_process_id=None
        ),
    )

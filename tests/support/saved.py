"""The record of a player as the node writes it."""

import json

from tonearm.core.metadata import JsonObject
from tonearm.core.snapshot import PlayerSnapshot
from tonearm.server.records import record_slices


def state_out(snapshot: PlayerSnapshot, saved_at_ms: int) -> JsonObject:
    record: JsonObject = json.loads(b"".join(record_slices(snapshot, saved_at_ms)))
    return record

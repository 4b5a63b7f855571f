"""What the log tells of a player's tracks."""

import logging

from tonearm.core.event import Event
from tonearm.core.json_value import Json
from tonearm.core.text_for_logs import text_for_logs

log = logging.getLogger(__name__)


def log_event(player_id: str, event: Event) -> None:
    """A line for an event that an operator wants to know of; none for the others."""
    match event.op:
        case "TrackStart":
            log.info("player %s: track started: %s", player_id, _uri(event))
        case "TrackEnd":
            log.info("player %s: track ended (%s): %s", player_id, event.fields["reason"], _uri(event))
        case "TrackException":
            error = event.fields["error"]
            message = text_for_logs(str(_field(error, "message")))
            log.warning("player %s: track failed (%s): %s %s", player_id, _field(error, "code"), message, _uri(event))


def _uri(event: Event) -> str:
    return text_for_logs(str(_field(_field(event.fields["track"], "info"), "identifier")))


def _field(value: Json, name: str) -> Json:
    return value[name] if isinstance(value, dict) else None

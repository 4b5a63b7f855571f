"""What a player's events tell, kept for showing."""

import json
from typing import Any, Final

from tonearm.core.frame import FRAME_MS

# After these the next frame is not due 20 ms after the one before.
_INTERRUPTIONS: Final = frozenset(
    {"PlayerState", "PlayerPause", "PlayerResume", "TrackStart", "TrackEnd", "TrackStuck", "TrackException"}
)


class PlayerView:
    """Follows the events; unknown ones and unknown fields are passed over."""

    def __init__(self) -> None:
        self.state = ""
        self.paused = False
        self.title = ""
        self.position_ms = 0
        self.length_ms = 0
        self.is_stream = False

    def take(self, text: str) -> tuple[bool, str | None]:
        """One event. Returns whether the flow of frames may have a break here, and a sentence worth showing."""
        try:
            event = json.loads(text)
        except ValueError:
            return False, None
        if not isinstance(event, dict):
            return False, None
        op = event.get("op")
        if op in ("PlayerState", "PlayerUpdate"):
            self._update(event)
        if op in ("PlayerState", "TrackStart"):
            self._track(event.get("track"))
        if op == "TrackStart":
            self.state, self.position_ms = "playing", 0
        elif op in ("PlayerPause", "PlayerResume"):
            self.paused = op == "PlayerPause"
        elif op == "StreamTitle":
            self.title = str(event.get("title", ""))
        is_break = op in _INTERRUPTIONS or (op == "PlayerUpdate" and self.state != "playing")
        return is_break, _sentence(event)

    def frame_heard(self) -> None:
        self.position_ms += FRAME_MS

    def _update(self, event: dict[str, Any]) -> None:
        self.state = str(event.get("state", self.state))
        self.paused = event.get("paused", self.paused) is True
        self.position_ms = _whole(event.get("position"), self.position_ms)

    def _track(self, track: object) -> None:
        info = track.get("info") if isinstance(track, dict) else None
        if not isinstance(info, dict):
            return
        author, title = str(info.get("author", "")), str(info.get("title", ""))
        self.title = f"{author} - {title}" if author else title
        self.length_ms = _whole(info.get("length"), 0)
        self.is_stream = info.get("isStream") is True


def _whole(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def _sentence(event: dict[str, Any]) -> str | None:
    match event.get("op"):
        case "TrackEnd":
            return f"track ended: {event.get('reason')}"
        case "TrackException":
            error = event.get("error")
            return f"track failed: {error.get('message')}" if isinstance(error, dict) else "track failed"
        case _:
            return None

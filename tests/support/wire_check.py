"""Holds what a client receives against the models of the wire: every field is known, and of its exact type.

Wherever the tests' clients take a reply or an event they call this module, so each test checks the wire beside its own
subject. Bodies of foreign paths are not looked at.
"""

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from pydantic import TypeAdapter

from tonearm.protocol import replies
from tonearm.protocol.events import EVENT
from tonearm.protocol.saved_state import SavedNode, SavedPlayer

_ID: Final = r"/v0/players/[^/]+"
# By method and path: status and model of an answer that has a JSON body.
_MODELS: Final[Mapping[str, tuple[int, TypeAdapter[Any]]]] = {
    "POST /v0/players": (201, TypeAdapter(replies.PlayerCreated)),
    "GET /v0/players": (200, TypeAdapter(list[replies.Player])),
    f"GET {_ID}": (200, TypeAdapter(replies.Player)),
    f"POST {_ID}/queue": (201, TypeAdapter(replies.TrackQueued)),
    f"GET {_ID}/queue": (200, TypeAdapter(list[replies.QueuedTrack])),
    f"GET {_ID}/queue?details": (200, TypeAdapter(list[replies.QueuedTrackDetails])),
    f"PUT {_ID}/track": (201, TypeAdapter(replies.TrackQueued)),
    f"GET {_ID}/history": (200, TypeAdapter(list[replies.PlayedTrack])),
    f"POST {_ID}/overlays": (201, TypeAdapter(replies.OverlayCreated | replies.OverlaysCreated)),
    f"GET {_ID}/overlays": (200, TypeAdapter(list[replies.Overlay])),
    f"GET {_ID}/overlays/[^/]+": (200, TypeAdapter(replies.Overlay)),
    f"GET {_ID}/filters": (200, TypeAdapter(replies.Filters)),
    "GET /v0/resolve": (200, TypeAdapter(replies.Resolved)),
    "GET /v0/load": (200, TypeAdapter(replies.Loaded)),
    "GET /v0/loadtracks": (200, TypeAdapter(replies.LoadResult)),
    "GET /v0/loadplaylist": (200, TypeAdapter(replies.LoadedPlaylist)),
    "GET /v0/files": (200, TypeAdapter(replies.LibraryFiles)),
    "GET /v0/files?details": (200, TypeAdapter(replies.LibraryFiles)),
    "POST /v0/files": (201, TypeAdapter(replies.SentFile)),
    "GET /v0/search": (200, TypeAdapter(replies.FoundTracks)),
    "POST /v0/encodetrack": (200, TypeAdapter(replies.TrackOut)),
    "GET /v0/decodetrack": (200, TypeAdapter(replies.TrackOut)),
    "POST /v0/decodetracks": (200, TypeAdapter(list[replies.TrackOut])),
    "GET /": (200, TypeAdapter(replies.NodeIndex)),
    "GET /v0/stats": (200, TypeAdapter(replies.Stats)),
    f"GET {_ID}/state": (200, TypeAdapter(SavedPlayer)),
    "GET /v0/state": (200, TypeAdapter(SavedNode)),
    "GET /healthz": (200, TypeAdapter(replies.NodeStatus)),
    "GET /readyz": (200, TypeAdapter(replies.NodeStatus)),
    "GET /info": (200, TypeAdapter(replies.NodeInfo)),
    "GET /version": (200, TypeAdapter(replies.NodeVersion)),
}
_ERROR: Final[TypeAdapter[Any]] = TypeAdapter(replies.Error)
_PICTURES: Final = ("image/jpeg", "image/png", "image/webp", "image/gif")
_PLAIN_TEXT: Final = ("GET /v0/resolve", "GET /version", "GET /")


def check_reply(method: str, target: str, status: int, content_type: str | None, body: bytes) -> None:
    """An answer of a node to `method` and `target`, which may be absolute and have a query."""
    path, _, query = re.sub("^https?://[^/]*", "", target).partition("?")
    route = f"{method} {path}{'?details' if 'details=true' in query else ''}"
    if status >= 400 and path in ("/dashboard", "/dashboard/") and content_type == "text/html; charset=utf-8":
        return  # to a browser
    if status >= 400:
        assert content_type == "application/json", (route, status, content_type)
        check_model(_ERROR, body)
        return
    if re.fullmatch(f"GET {_ID}/artwork", route):
        assert status == 304 or (status == 200 and content_type in _PICTURES), (route, status, content_type)
        return
    for pattern, (success, model) in _MODELS.items():
        if re.fullmatch(pattern.replace("?", "[?]"), route):
            assert status == success, (route, status)
            if content_type == "application/json" or pattern not in _PLAIN_TEXT:
                assert content_type == "application/json", (route, content_type)
                check_model(model, body)
            return


def check_event(text: str) -> None:
    """A message of an event socket."""
    check_model(EVENT, text)


def check_player(state: object) -> None:
    """A player's whole state, as GET /v0/players/{id} answers it."""
    check_model(_MODELS[f"GET {_ID}"][1], json.dumps(state))


def check_model(model: TypeAdapter[Any], text: str | bytes) -> None:
    """A text of JSON is just what `model` describes."""
    value = json.loads(text)
    read = model.validate_python(value)
    # What the model does not know is missing then; what it changed is different.
    written = model.dump_python(read, by_alias=True, exclude_unset=True)
    assert _typed(written) == _typed(value), f"{text!r} is not what the models describe: {written}"


def _typed(value: Any) -> Any:
    """`value` with its types, because to Python true is 1 and 1 is 1.0."""
    if isinstance(value, dict):
        return {name: _typed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_typed(item) for item in value]
    if isinstance(value, StrEnum):
        value = value.value
    return type(value).__name__, value

"""The AsyncAPI 3.0 document of the WebSockets: audio, events of one player, events of all players, public events.

The format: https://www.asyncapi.com/docs/reference/specification/v3.0.0.
"""

import json
import re
from typing import Any, Final, get_args

from tonearm.core.metadata import Json, JsonObject
from tonearm.description.audio import FOLLOW_PLAYER, FOLLOW_PLAYERS, LISTEN
from tonearm.description.openapi import schemas_of
from tonearm.description.operation import Operation
from tonearm.protocol.events import AnyEvent, EventsLost, PlayerCreate, PublicState

_NAMES: Final = {
    "tonearm__protocol__events__PlayerState": "PlayerStateEvent",
    "tonearm__core__events__PlayerState": "PlayerState",
}
_ALL_PLAYERS_ONLY: Final = frozenset({PlayerCreate.__name__, EventsLost.__name__})
_CLOSES: Final = (
    "The node closes a socket with 1000 when the player was deleted, 1001 when the node shuts down, 1012 when the "
    "player continues in a new life, here or at another node, and 1013 when the client is too slow."
)


def asyncapi_document(version: str) -> JsonObject:
    """The whole document."""
    events = get_args(get_args(AnyEvent)[0])
    models: dict[str, Any] = {event.__name__: event for event in events}
    models[PublicState.__name__] = PublicState
    schemas = schemas_of(models)
    definitions = _renamed(schemas.definitions)
    messages: JsonObject = {
        name: {"contentType": "application/json", "summary": _first_line(models[name]), "payload": _renamed(schema)}
        for name, schema in schemas.by_model.items()
    }
    messages["Frame"] = {
        "contentType": "application/octet-stream",
        "summary": "One frame of 20 ms, as a binary message.",
        "description": (
            "PCM: 3840 bytes, 48 kHz, two channels, signed 16 bits, little-endian. Opus: one packet. With `header=1` "
            "there are 16 bytes before the payload, big-endian: uint8 version, 1; uint8 flags (1: a track starts, 2: "
            "discontinuity, 4: silent packet that prepares a decoder, 8: unchanged packet of the source); uint16 size "
            "of the payload in bytes; uint32 number of the frame; uint64 position in the track in µs."
        ),
    }
    of_player = [name for name in models if name not in {*_ALL_PLAYERS_ONLY, PublicState.__name__}]
    of_all = [name for name in models if name != PublicState.__name__]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "tonearm: sockets",
            "version": version,
            "description": (
                "The node sends messages, and ignores messages from the client. A client must answer pings, as "
                f"WebSocket libraries do. {_CLOSES}"
            ),
            "license": {"name": "MIT"},
        },
        "servers": {
            "node": {
                "host": "127.0.0.1:2333",
                "protocol": "ws",
                "security": [
                    {
                        "type": "httpApiKey",
                        "in": "header",
                        "name": "Authorization",
                        "description": "The bare password, if the node has one.",
                    }
                ],
            },
            "public": {
                "host": "127.0.0.1:2335",
                "protocol": "ws",
                "description": "The public address, if it is enabled.",
            },
        },
        "channels": {
            "audio": _channel(LISTEN, ["Frame"]),
            "events": _channel(FOLLOW_PLAYER, of_player),
            "allEvents": _channel(FOLLOW_PLAYERS, of_all),
            "publicEvents": {
                "address": "/{player_id}/events",
                "servers": [{"$ref": "#/servers/public"}],
                "summary": "Follow a public player",
                "parameters": {"player_id": {"description": "The player's id."}},
                "messages": _messages([PublicState.__name__]),
            },
        },
        "operations": {
            name: {"action": "send", "channel": {"$ref": f"#/channels/{name}"}}
            for name in ("audio", "events", "allEvents", "publicEvents")
        },
        "components": {"messages": messages, "schemas": definitions},
    }


def _renamed(schemas: JsonObject) -> JsonObject:
    """`schemas` with short names for the two models `PlayerState`, which pydantic gives long ones."""
    text = json.dumps(schemas)
    for long, short in _NAMES.items():
        text = text.replace(long, short)
    renamed: JsonObject = json.loads(text)
    return renamed


def _channel(operation: Operation, messages: list[str]) -> JsonObject:
    query: JsonObject = {
        parameter.name: {**parameter.schema, "description": parameter.text, "examples": [parameter.example]}
        for parameter in operation.parameters
    }
    return {
        "address": operation.path,
        "servers": [{"$ref": "#/servers/node"}],
        "summary": operation.summary,
        "parameters": {name: {"description": "The player's id."} for name in re.findall(r"{(\w+)}", operation.path)},
        "bindings": {"ws": {"method": "GET", "query": {"type": "object", "properties": query}}},
        "messages": _messages(messages),
    }


def _messages(names: list[str]) -> Json:
    return {name: {"$ref": f"#/components/messages/{name}"} for name in names}


def _first_line(model: Any) -> str:
    return (model.__doc__ or "").strip().partition("\n")[0]

"""Reading a request's JSON body within limits, as one of the models of `protocol.requests`; a player's record, which
may be long, in pieces. Unknown names of fields are found, and the known names that were probably meant.
"""

import asyncio
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypeVar, get_args
from urllib.parse import quote

from aiohttp import HttpVersion11, web
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import from_json

from tonearm.core.errors import BadRequest, LimitReached
from tonearm.core.metadata import MAX_NESTING, MAX_RECORD_NESTING, Json, JsonObject, levels_of
from tonearm.core.play_queue import QueuedTrack
from tonearm.core.snapshot import PlayerSnapshot
from tonearm.protocol.saved_state import SavedPlayer, SavedTrack, require_version
from tonearm.protocol.wire_model import ExactModel, RequestModel
from tonearm.server.http_server import EdgeRequest
from tonearm.server.json_pieces import MAX_PIECE_BYTES, PieceTooLong, is_object, pieces_of
from tonearm.server.replies import BodyTooLarge

IGNORED_HEADER: Final = "Tonearm-Ignored"
MAX_BODY_BYTES: Final = 1024 * 1024
MAX_VALUES: Final = 50_000  # the parser keeps the interpreter's lock until it has read all of them

_THREAD_FROM_BYTES: Final = 8 * 1024  # so large bodies are decoded in a thread, while the event loop goes on

ModelT = TypeVar("ModelT", bound=RequestModel)


async def read_body(request: EdgeRequest, model: type[ModelT]) -> ModelT:
    """The body as `model`. Raises `BodyTooLarge`, and `BadRequest` that names the first field that is wrong."""
    return as_model(request, await read_json(request), model)


def as_model(request: EdgeRequest, value: Json, model: type[ModelT]) -> ModelT:
    """The body of `request` as `model`; the answer will name the fields that are ignored.

    Raises `BadRequest` that names the first field that is wrong.
    """
    ignored: list[str] = []
    try:
        return _checked(value, model, ignored)
    finally:
        _name_ignored(request, ignored)


def _checked(value: Json, model: type[ModelT], ignored: list[str], place: str = "") -> ModelT:
    """`value`, which stands at `place` of the body, as `model`. Adds the names that are `ignored`. Raises
    `BadRequest`."""
    unknown = [*unknown_names(model, value, place)]
    for one in unknown:
        if one.is_refused:
            raise BadRequest(one.sentence)
    ignored += [one.shown for one in unknown]
    try:
        return model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        raise BadRequest(_sentence(error, place)) from error


def _name_ignored(request: EdgeRequest, ignored: Sequence[str]) -> None:
    if ignored:
        request.add_reply_header(IGNORED_HEADER, header_text(ignored))


async def read_json(request: EdgeRequest) -> Json:
    """The body as a JSON value, whatever its content type. Raises `BodyTooLarge` and `BadRequest`."""
    raw = await _read(request, MAX_BODY_BYTES)
    if len(raw) >= _THREAD_FROM_BYTES:
        return (await asyncio.to_thread(_decode, raw))[0]
    return _decode(raw)[0]


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """Of a player's record: its bytes, the values in it, and its tracks."""

    max_bytes: int
    max_values: int
    max_tracks: int


async def read_record(
    request: EdgeRequest, limits: RecordLimits, player_id: str, *, came_through_proxy: bool
) -> PlayerSnapshot:
    """The body as a player's record, for the player with this id. Raises `BodyTooLarge`, `LimitReached` for too many
    tracks, and `BadRequest` that names the first field that is wrong."""
    raw, ignored = await _read(request, limits.max_bytes), list[str]()

    def read() -> PlayerSnapshot:
        player, tracks = _record(raw, limits, ignored, came_through_proxy)
        return player.as_snapshot(player_id, tracks)

    try:
        return await asyncio.to_thread(read)
    finally:
        _name_ignored(request, ignored)


def _record(
    raw: bytearray, limits: RecordLimits, ignored: list[str], came_through_proxy: bool
) -> tuple[SavedPlayer, list[QueuedTrack]]:
    """A player without its tracks, and these."""
    if not is_object(raw):  # the refusal needs to know no more of what is long
        return _checked(None if len(raw) > MAX_PIECE_BYTES else _decode(raw)[0], SavedPlayer, ignored), []
    fields: JsonObject = {}
    tracks: list[QueuedTrack] = []
    values = 0
    try:
        for piece in pieces_of(raw):
            outside = 1 if piece.index is None else 2
            (name, _), (value, count) = _decode(piece.name), _decode(piece.value, MAX_RECORD_NESTING - outside)
            assert isinstance(name, str), "a piece's name is one"
            values += count
            if values > limits.max_values:
                raise _too_many_values(limits.max_values)
            if piece.index is None:
                fields[name] = value
                if name == "version" and type(value) is int:
                    require_version(value)  # before its tracks, in which something may be new
                elif name == "tracks":  # of a field that is there twice the last counts
                    tracks.clear()
                continue
            if piece.index >= limits.max_tracks:
                raise LimitReached(
                    f"`{name}` of the record has more than {limits.max_tracks} entries, as many as a player has tracks "
                    "with those that player.max_waiting_tracks allows. Leave some out."
                )
            if name == "tracks":
                track = _checked(value, SavedTrack, ignored, f"tracks.{piece.index}.")
                tracks.append(track.as_queued(came_through_proxy))
            else:
                items = fields[name]
                assert isinstance(items, list), "its `[]` came first"
                items.append(value)
    except PieceTooLong:
        raise BodyTooLarge(f"A value in the body has more than {MAX_PIECE_BYTES} bytes. Send less at once.") from None
    except RecursionError:
        raise _too_deep(MAX_RECORD_NESTING) from None
    except ValueError as error:
        raise _not_json(error) from error
    return _checked(fields, SavedPlayer, ignored), tracks


async def _read(request: EdgeRequest, max_bytes: int) -> bytearray:
    if (request.content_length or 0) > max_bytes:
        raise _too_large(max_bytes)
    expects = request.version >= HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue"
    if expects and request.transport is not None:
        # Sent only now, so that a client whose request is refused does not send the body.
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    raw = bytearray()
    try:
        async for part in request.content.iter_any():
            raw += part
            if len(raw) > max_bytes:
                raise _too_large(max_bytes)
    except (web.RequestPayloadError, ConnectionError) as error:
        # Nothing more can be read; aiohttp would try, and log a failure.
        request.content.feed_eof()
        raise BadRequest("The body ended early or is not encoded as its headers say. Send it again, whole.") from error
    return raw


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than {max_bytes} bytes. Send less.")


def _decode(raw: bytes | bytearray, max_nesting: int = MAX_NESTING) -> tuple[Json, int]:
    """The value, and how many values it holds."""
    if not raw.strip():
        raise BadRequest("The body is empty. Send JSON in it.")
    _require_few_values(raw, max_nesting)
    try:
        # The parser refuses NaN, lone surrogates, invalid UTF-8 and more than 200 levels.
        value: Json = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise _not_json(error) from error
    return value, _count_plain(value, max_nesting)


def _not_json(error: ValueError) -> BadRequest:
    return BadRequest(f"The body is not valid JSON: {error}.")


_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)  # a string without an end goes to the body's end


def _require_few_values(raw: bytes | bytearray, max_nesting: int) -> None:
    """Refuses what holds very many values by its punctuation, before anything is made of them."""
    commas, brackets = _punctuation(raw)
    if commas + brackets > MAX_VALUES:
        for match in _STRING.finditer(raw):
            commas_inside, brackets_inside = _punctuation(match[0])
            commas -= commas_inside
            brackets -= brackets_inside
    if commas + brackets > MAX_VALUES:
        if brackets > max_nesting * (commas + 1):  # with so few branches one of them is too deep
            raise _too_deep(max_nesting)
        raise _too_many_values(MAX_VALUES)


def _too_many_values(most: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body holds more than {most} values. Send less at once.")


def _punctuation(raw: bytes | bytearray) -> tuple[int, int]:
    return raw.count(b","), raw.count(b"[") + raw.count(b"{")


def _too_deep(max_nesting: int) -> BadRequest:
    return BadRequest(f"The body is nested deeper than {max_nesting} levels. Send it flatter.")


def _count_plain(value: Json, max_nesting: int) -> int:
    """How many values `value` holds. Refuses what is valid JSON but cannot be kept or sent again: deep nesting, and
    `1e999`, read as infinity."""
    count = 0
    for depth, level in enumerate(levels_of(value)):
        if depth > max_nesting:
            raise _too_deep(max_nesting)
        if any(isinstance(item, float) and not math.isfinite(item) for item in level):
            raise BadRequest("The body holds a number that is too large. Send finite numbers only.")
        count += len(level)
    return count


_EXPECTED: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "string_type": "must be a string",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "list_type": "must be an array",
    "model_type": "must be an object",
    "too_short": "must not be empty",
}


def _sentence(error: ValidationError, place: str) -> str:
    """A sentence about the first field that is wrong, and what it must be. What was looked at stands at `place`."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = (place + ".".join(str(part) for part in first["loc"])).rstrip(".")
    subject = f"The field `{field}`" if field else "The body"
    if first["type"] == "enum":
        return f"{subject} must be one of {first['ctx']['expected']}."
    return f"{subject} {_EXPECTED.get(first['type']) or 'is wrong: ' + first['msg']}."


_SHOWN_CHARACTERS: Final = 60
_NAMES_OF_AN_OBJECT: Final = 20
_HEADER_CHARACTERS: Final = 1000  # proxies limit headers to a few KiB
_SAFE: Final = "!#$&'*+^`|~."  # what a header's token may hold, but for `%`


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A `name` that is no field of `model`; `place` is the path before it: "" or, for example, "tracks.0."."""

    place: str
    name: str
    model: type[RequestModel]

    @property
    def is_refused(self) -> bool:
        """Whether the request is refused. Elsewhere an unknown name is ignored, so that a client works with other
        nodes."""
        return issubclass(self.model, ExactModel)

    @property
    def shown(self) -> str:
        return self.place + self.name[:_SHOWN_CHARACTERS]

    @property
    def sentence(self) -> str:
        """A sentence for the client, with the nearest known name or all of them."""
        names = {known.lower(): known for known in fields_of(self.model)}
        nearest = get_close_matches(self.name[:_SHOWN_CHARACTERS].lower(), names, n=1)
        if nearest:
            return f"There is no field `{self.shown}`; did you mean `{self.place}{names[nearest[0]]}`?"
        return f"There is no field `{self.shown}`; there are {', '.join(names.values())}."


def unknown_names(model: type[RequestModel], value: Json, place: str = "") -> Iterator[UnknownName]:
    """The unknown names in the body `value`, at all depths, for `model` and the models in it; at most
    `_NAMES_OF_AN_OBJECT` of each object."""
    if not isinstance(value, dict):
        return
    fields = fields_of(model)
    unknown = [name for name in value if name not in fields]
    for name in unknown[:_NAMES_OF_AN_OBJECT]:
        yield UnknownName(place, name, model)
    for name, field in fields.items():
        item = value.get(name)
        inner = _inner_model(field) if isinstance(item, dict | list) else None
        if inner is None:
            continue
        if isinstance(item, list):
            for index, entry in enumerate(item):
                yield from unknown_names(inner, entry, f"{place}{name}.{index}.")
        else:
            yield from unknown_names(inner, item, f"{place}{name}.")


def header_text(names: Iterable[str]) -> str:
    """`names` as the value of a header, percent-encoded where it takes that, and cut with `...` when it is too long."""
    text = ""
    for name in names:
        longer = f"{text}, {quote(name, safe=_SAFE)}" if text else quote(name, safe=_SAFE)
        if len(longer) > _HEADER_CHARACTERS:
            return f"{text}, ..."
        text = longer
    return text


def fields_of(model: type[RequestModel]) -> Mapping[str, FieldInfo]:
    """The fields of `model` by their names on the wire."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _inner_model(field: FieldInfo) -> type[RequestModel] | None:
    """The model of a field's value, or of its items when it is a list; None when these are no `RequestModel`."""
    kinds = (field.annotation, *get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, RequestModel)), None)

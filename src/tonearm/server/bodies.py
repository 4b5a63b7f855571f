"""Reading a request's JSON body within limits, as one of the models of `protocol.requests`. Unknown names of
fields are found, and the known names that were probably meant.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, TypeVar, get_args
from urllib.parse import quote

from aiohttp import HttpVersion11, web
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, from_json

from tonearm.core.errors import BadRequest
from tonearm.core.metadata import MAX_NESTING, Json, levels_of
from tonearm.protocol.wire_model import ExactModel, RequestModel
from tonearm.server.http_server import EdgeRequest
from tonearm.server.replies import BodyTooLarge

IGNORED_HEADER: Final = "Tonearm-Ignored"
MAX_BODY_BYTES: Final = 1024 * 1024
MAX_VALUES: Final = 50_000

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
        return checked(value, model, ignored)
    finally:
        name_ignored(request, ignored)


def checked(value: Json, model: type[ModelT], ignored: list[str], place: str = "") -> ModelT:
    """`value`, found at `place` of the body, as `model`. Adds ignored names to `ignored`. Raises `BadRequest`."""
    unknown = [*unknown_names(model, value, place)]
    for one in unknown:
        if one.is_refused:
            raise BadRequest(one.sentence)
    ignored += [one.shown for one in unknown]
    try:
        return model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        raise BadRequest(_sentence(error, place)) from error


def name_ignored(request: EdgeRequest, ignored: Sequence[str]) -> None:
    if ignored:
        request.add_reply_header(IGNORED_HEADER, header_text(ignored))


async def read_json(request: EdgeRequest) -> Json:
    """The body as a JSON value, whatever its content type. Raises `BodyTooLarge` and `BadRequest`."""
    raw = await read_raw(request, MAX_BODY_BYTES)
    if len(raw) >= _THREAD_FROM_BYTES:
        return (await asyncio.to_thread(decoded, raw))[0]
    return decoded(raw)[0]


async def read_raw(request: EdgeRequest, max_bytes: int) -> bytearray:
    """The body, unpacked. Raises `BodyTooLarge` and `BadRequest`."""
    raw = bytearray()
    async for part in body_parts(request, max_bytes):
        raw += part
    request.known_body = raw
    return raw


def body_parts(request: EdgeRequest, max_bytes: int) -> AsyncIterator[bytes]:
    """The body, unpacked, in parts as they arrive. Raises `BodyTooLarge` (at once if the announced length is too large)
    and `BadRequest`."""
    if (request.content_length or 0) > max_bytes:
        raise _too_large(max_bytes)
    return _parts(request, max_bytes) if request.known_body is None else _again(request.known_body)


async def _again(body: bytearray) -> AsyncIterator[bytes]:
    yield bytes(body)


async def _parts(request: EdgeRequest, max_bytes: int) -> AsyncIterator[bytes]:
    expects = request.version >= HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue"
    if expects and request.transport is not None:
        # Sent only now, so that a client whose request is refused does not send the body.
        request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    size_bytes = 0
    try:
        async for part in request.content.iter_any():
            size_bytes += len(part)
            if size_bytes > max_bytes:
                raise _too_large(max_bytes)
            yield part
    except (web.RequestPayloadError, ConnectionError) as error:
        # Nothing more can be read; aiohttp would try, and log a failure.
        request.content.feed_eof()
        raise BadRequest(
            "The body ended early or is not encoded as its headers say. Send the whole body again."
        ) from error


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than {max_bytes} bytes. Send less.")


def decoded(raw: bytes | bytearray, max_nesting: int = MAX_NESTING) -> tuple[Json, int]:
    """The JSON value, and the number of values in it. Raises `BodyTooLarge` for more than `MAX_VALUES`.

    Raises `BadRequest` for invalid JSON, and for JSON that cannot be stored or sent again: deep nesting, and numbers
    such as `1e999`, which is read as infinity.
    """
    if not raw.strip():
        raise BadRequest("The body is empty. Send JSON in it.")
    try:
        # The parser refuses NaN, lone surrogates, invalid UTF-8 and more than 200 levels. It keeps the interpreter's
        # lock, and twice as long when it looks for repeated texts.
        value: Json = from_json(raw, allow_inf_nan=False, cache_strings="none")
    except ValueError as error:
        raise too_deep(max_nesting) if "recursion limit" in str(error) else not_json(error) from error
    count = 0
    for depth, level in enumerate(levels_of(value)):
        if depth > max_nesting:
            raise too_deep(max_nesting)
        count += len(level)
        if count > MAX_VALUES:
            raise too_many_values(MAX_VALUES)
        if any(isinstance(item, float) and not math.isfinite(item) for item in level):
            raise BadRequest("The body contains a number that is too large. Send finite numbers only.")
    return value, count


def not_json(error: ValueError) -> BadRequest:
    return BadRequest(f"The body is not valid JSON: {error}.")


def too_deep(max_nesting: int) -> BadRequest:
    return BadRequest(f"The body is nested deeper than {max_nesting} levels. Send fewer levels.")


def too_many_values(most: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body contains more than {most} values. Send less at once.")


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
    """A sentence about the first wrong field and what it must be. `place` is the path of the checked value."""
    problems = error.errors(include_url=False, include_input=False)
    path = problems[0]["loc"]
    if path and str(path[-1]).startswith("literal["):  # one kind of several that the field takes
        path = path[:-1]
    field = (place + ".".join(str(part) for part in path)).rstrip(".")
    subject = f"The field `{field}`" if field else "The body"
    first, *others = (_expected(problem) for problem in problems if problem["loc"][: len(path)] == path)
    return f"{', '.join([f'{subject} {first}', *(other.removeprefix('must be ') for other in others)])}."


def _expected(problem: ErrorDetails) -> str:
    if problem["type"] in ("enum", "literal_error"):
        return f"must be one of {problem['ctx']['expected']}"
    return _EXPECTED.get(problem["type"]) or f"is wrong: {problem['msg']}"


_SHOWN_CHARACTERS: Final = 60
_NAMES_OF_AN_OBJECT: Final = 20
_HEADER_CHARACTERS: Final = 1000  # proxies limit headers to a few KiB
_SAFE: Final = "!#$&'*+^`|~."  # characters that a header's token may contain, except `%`


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
    """`names` as the value of a header, percent-encoded where necessary, and cut with `...` if it is too long."""
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

"""Finds unknown names of fields in a request's body, and the known names that were probably meant."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, get_args
from urllib.parse import quote

from pydantic.fields import FieldInfo

from tonearm.core.json_value import Json
from tonearm.protocol.wire_model import ExactModel, RequestModel

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

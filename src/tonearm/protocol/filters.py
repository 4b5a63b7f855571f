"""The models of a player's effects. Requests, replies and events use the same ones.

The models are made from the classes of `core.filters`. Those classes check the ranges; the models only describe them.
"""

from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any

from pydantic import Field, create_model

from tonearm.core.errors import BadRequest
from tonearm.core.filters import EFFECT_KINDS, MEANING, RANGE, Effect, Effects
from tonearm.core.metadata import JsonObject
from tonearm.protocol.wire_model import ExactModel, WireModel


def _model_of(effect: type[Effect]) -> Any:
    found: dict[str, Any] = {}
    for item in fields(effect):
        limits = item.metadata.get(RANGE)
        kind, described = (item.type, None) if limits is None else (float, _within(*limits))
        found[item.name] = kind, Field(item.default, description=item.metadata[MEANING], json_schema_extra=described)
    return create_model(effect.__name__, __base__=ExactModel, __doc__=effect.__doc__, __module__=__name__, **found)


def _within(least: float, most: float) -> Callable[[JsonObject], None]:
    def describe(schema: JsonObject) -> None:
        schema |= {"minimum": least, "maximum": most}
        if schema.get("default", 0) is None:  # on the wire such a number is absent, never null
            del schema["default"]

    return describe


class EffectFields(WireModel):
    """All effects. An effect that is off is null."""

    __annotations__ = {
        name: Annotated[_model_of(kind) | None, Field(default=None)] for name, kind in EFFECT_KINDS.items()
    }

    def as_effects(self) -> Effects:
        """All effects, as values."""
        return Effects(**{name: self._effect(name) for name in EFFECT_KINDS})

    def given_effects(self) -> dict[str, Effect | None]:
        """The effects that the body names, by the names of `core.filters.Effects`; None switches an effect off.

        The ranges are not checked yet. Raises BadRequest for fields that exclude each other."""
        low_pass = getattr(self, "low_pass", None)
        if low_pass is not None and {"smoothing", "frequency_hz"} <= low_pass.model_fields_set:
            raise BadRequest("lowPass takes smoothing or frequencyHz, not both. Leave one of them out.")
        return {name: self._effect(name) for name in self.model_fields_set & EFFECT_KINDS.keys()}

    def _effect(self, name: str) -> Any:
        model = getattr(self, name)
        return None if model is None else EFFECT_KINDS[name](**model.model_dump())

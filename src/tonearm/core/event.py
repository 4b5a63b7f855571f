"""The events that a player tells, each as an operation name and its own fields."""

from dataclasses import dataclass, field

from tonearm.core.json_value import JsonObject


@dataclass(frozen=True, slots=True)
class Event:
    """`op` and the fields of that kind; `id`, `seq` and `time` are added where events are logged."""

    op: str
    fields: JsonObject = field(default_factory=dict)

"""The types of JSON values as Python's parsers give them: any value, and an object."""

from typing import TypeAlias, Union

# Union, not |: the alias refers to itself by name.
Json: TypeAlias = Union[bool, int, float, str, "list[Json]", "dict[str, Json]", None]
JsonObject: TypeAlias = dict[str, Json]

"""The type of any JSON value."""

from typing import TypeAlias, Union

# Union, not |: the alias refers to itself by name.
Json: TypeAlias = Union[bool, int, float, str, "list[Json]", "dict[str, Json]", None]
JsonObject: TypeAlias = dict[str, Json]

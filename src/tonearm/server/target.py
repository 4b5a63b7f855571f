"""The request target, read from what was sent.

Libraries normalise paths: they resolve dots, decode some escapes and keep others. A player's id may hold any of
`. _ ~ : @ + -`, so the path is split before it is decoded, and nothing else is done to it.
"""

from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from tonearm.core.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Target:
    """`path` as sent, without query; `segments` percent-decoded; `query` as sent."""

    path: str
    segments: tuple[str, ...]
    query: str

    def parameter(self, name: str, *, keeps_plus: bool = False) -> str | None:
        """The decoded value, or None when it is not there. Raises `BadRequest` when it is there twice or not UTF-8.

        A `+` is a space, as in forms. With `keeps_plus` it stays: in base64 nobody means a space.
        """
        query = self.query.replace("+", "%2B") if keeps_plus else self.query
        try:
            parameters = parse_qsl(query, keep_blank_values=True, errors="strict")
            values = [value for key, value in parameters if key == name]
            for value in values:
                value.encode("utf-8")  # bytes that were sent raw and are not UTF-8 have become lone surrogates
        except UnicodeError as error:
            raise BadRequest("The query is not UTF-8. Percent-encode it as UTF-8.") from error
        if len(values) > 1:
            raise BadRequest(f"The parameter `{name}` is there {len(values)} times. Send it once.")
        return values[0] if values else None

    def required_parameter(self, name: str, *, keeps_plus: bool = False) -> str:
        """As `parameter`, but a missing one is a `BadRequest` too."""
        value = self.parameter(name, keeps_plus=keeps_plus)
        if value is None:
            raise BadRequest(f"The parameter `{name}` is missing. Add ?{name}=… to the path.")
        return value


def parse_target(raw: str) -> Target:
    """Takes the target of a request line: `/path?query`, also in absolute form (`http://host/path?query`)."""
    if not raw.startswith("/") and "://" in raw:
        raw = "/" + raw.partition("://")[2].partition("/")[2]
    path, _, query = raw.partition("#")[0].partition("?")
    return Target(path, tuple(unquote(segment) for segment in path.split("/")[1:]), query)

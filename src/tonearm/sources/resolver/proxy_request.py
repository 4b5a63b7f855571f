"""The head of a request to a forward proxy (RFC 9112, 3.2), read strictly: there is one client, and it is known."""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

_REQUEST_LINE: Final = re.compile(r"([A-Z]{1,16}) ([!-~]{1,8192}) HTTP/1\.[01]")
_HEADER: Final = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([^\x00-\x1f\x7f]*)")
_LENGTH: Final = re.compile(r"[0-9]{1,15}")
# Between client and proxy only, or written anew.
_NOT_PASSED_ON: Final = frozenset(
    {"connection", "host", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "upgrade"}
)


class BadProxyRequest(Exception):
    """What cannot be read in exactly one way."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """`target` is host and port of a `CONNECT`, else an absolute URI. `headers` are those to pass on."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body_bytes: int
    password: str

    @property
    def is_tunnel(self) -> bool:
        return self.method == "CONNECT"


def parse_proxy_request(head: bytes) -> ProxyRequest:
    """`head` ends with the empty line. Raises `BadProxyRequest`."""
    lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    found = _REQUEST_LINE.fullmatch(lines[0])
    if found is None:
        raise BadProxyRequest("the request line cannot be read")
    headers: list[tuple[str, str]] = []
    special: dict[str, str] = {}
    for line in lines[1:]:
        header = _HEADER.fullmatch(line)
        if header is None:
            raise BadProxyRequest("a header cannot be read")
        name, value = header[1].lower(), header[2].rstrip(" \t")
        if name in ("content-length", "proxy-authorization"):
            if name in special:
                raise BadProxyRequest(f"{name} is there twice")
            special[name] = value
        if name == "transfer-encoding":
            raise BadProxyRequest("a body of unknown length is not taken")
        if name not in _NOT_PASSED_ON:
            headers.append((header[1], value))
    length = special.get("content-length", "0")
    if _LENGTH.fullmatch(length) is None:
        raise BadProxyRequest("the length of the body cannot be read")
    return ProxyRequest(found[1], found[2], tuple(headers), int(length), _password(special.get("proxy-authorization")))


def _password(authorization: str | None) -> str:
    scheme, _, encoded = (authorization or "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(encoded, validate=True).decode("latin-1").partition(":")[2]
    except (binascii.Error, ValueError):
        return ""

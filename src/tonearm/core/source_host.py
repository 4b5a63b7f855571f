"""Host names of HTTP URIs in one comparable form.

The forms that resolvers and browsers take for the same host (letters in other widths or cases, a trailing dot,
`0x7f.1` for 127.0.0.1) come out alike, so that a pattern for a host cannot be avoided by writing it differently.
"""

import ipaddress
import re
import unicodedata
from typing import Final

from tonearm.core.errors import BadRequest

_MAX_HOST_CHARACTERS: Final = 253
_MAX_LABEL_CHARACTERS: Final = 63
_ASCII_LABEL: Final = re.compile(r"[a-z0-9_-]+", re.ASCII)
_IPV4_NUMBER: Final = re.compile(r"0x[0-9a-f]*|[0-9]+", re.ASCII)
_IDEOGRAPHIC_FULL_STOPS: Final = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})
_DEVIATIONS: Final = "ßς"  # letters of their own in domain names today (UTS 46, non-transitional)


def normalise_host(host: str) -> str:
    """`host` in lower case ASCII: a name without trailing dot, an IPv4 address in four decimal numbers, or an IPv6
    address, compressed and without brackets. Raises BadRequest for what is none of these."""
    if host.startswith("["):
        return _ipv6(host)
    folded = _fold(host.translate(_IDEOGRAPHIC_FULL_STOPS))
    name = ".".join(_ascii_label(label, host) for label in folded.removesuffix(".").split("."))
    if _IPV4_NUMBER.fullmatch(name.rpartition(".")[2]):
        return _ipv4(name, host)
    if len(name) > _MAX_HOST_CHARACTERS:
        raise BadRequest(f"A host name has at most {_MAX_HOST_CHARACTERS} characters; this one has {len(name)}.")
    return name


def _fold(text: str) -> str:
    compatible = unicodedata.normalize("NFKC", text)
    folded = "".join(letter if letter in _DEVIATIONS else letter.casefold() for letter in compatible)
    return unicodedata.normalize("NFKC", folded)


def _ascii_label(label: str, host: str) -> str:
    if label.isascii():
        ascii_label = label
        is_valid = _ASCII_LABEL.fullmatch(label) is not None
    else:
        ascii_label = "xn--" + label.encode("punycode").decode("ascii")
        is_valid = all(letter in "-_" or unicodedata.category(letter)[0] in "LMN" for letter in label)
    if not is_valid or len(ascii_label) > _MAX_LABEL_CHARACTERS:
        raise BadRequest(f"The URI's host {host!r} is no valid host name.")
    return ascii_label


def _ipv4(name: str, host: str) -> str:
    """WHATWG URL, "IPv4 parser": one to four numbers, decimal, octal or hexadecimal; the last fills what is left."""
    parts = name.split(".")
    numbers = [_ipv4_number(part, host) for part in parts]
    last_limit = 256 ** (5 - len(parts)) if len(parts) <= 4 else 0
    if any(number > 255 for number in numbers[:-1]) or numbers[-1] >= last_limit:
        raise _invalid_address(host)
    address = numbers[-1]
    for position, number in enumerate(numbers[:-1]):
        address += number << (24 - 8 * position)
    return str(ipaddress.IPv4Address(address))


def _ipv4_number(part: str, host: str) -> int:
    if not _IPV4_NUMBER.fullmatch(part):
        raise _invalid_address(host)
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    try:
        return int(part, 8 if part.startswith("0") else 10)
    except ValueError as error:  # 8 or 9 in an octal number
        raise _invalid_address(host) from error


def _ipv6(host: str) -> str:
    if not host.endswith("]") or "%" in host:
        raise _invalid_address(host)
    try:
        return ipaddress.IPv6Address(host[1:-1]).compressed
    except ValueError as error:
        raise _invalid_address(host) from error


def _invalid_address(host: str) -> BadRequest:
    return BadRequest(f"The URI's host {host!r} is no valid network address.")

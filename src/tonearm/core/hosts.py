"""Hosts that servers listen on, and that clients name."""

from ipaddress import IPv4Address, IPv6Address, ip_address


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """The IP address that `host` is, of IPv6 with brackets or without; None for a name."""
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach what listens on `host`."""
    address = address_of(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def in_url(host: str) -> str:
    """`host` as it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host

"""Limits the rate of requests by address."""

import ipaddress
from collections import OrderedDict
from typing import Final

_HOUSEHOLD_BITS: Final = 64  # the prefix of the IPv6 network that a provider gives to a customer, at least


def origin_of(address: str) -> str:
    """The key by which connections are counted: the IPv4 address (also of an IPv4-mapped one), or the IPv6 network
    (/64)."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.IPv6Network((ip, _HOUSEHOLD_BITS), strict=False))


class RequestRates:
    """A token bucket for each address. `a_second` requests are allowed, after a while without any `at_once` together,
    or as many as in a second; 0 allows all of them. Times are seconds of a monotonic clock; the caller passes them
    in."""

    def __init__(self, a_second: float, at_once: float = 1.0) -> None:
        self._a_second = a_second
        self._at_once = max(at_once, a_second)
        # By address: how many requests were left, and when. The newest address is last.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, address: str, now_s: float) -> float:
        """0 when a request may come from `address` now, which is counted then; else in how many seconds it may."""
        if not self._a_second:
            return 0.0
        most = self._at_once
        left, at_s = self._left.pop(address, (most, now_s))
        left = min(most, left + (now_s - at_s) * self._a_second)
        is_allowed = left >= 1
        self._left[address] = (left - is_allowed, now_s)
        self._forget(now_s - most / self._a_second)
        return 0.0 if is_allowed else (1 - left) / self._a_second

    def _forget(self, full_since_s: float) -> None:
        """Forgets up to two addresses whose buckets are full again: more than a request adds, and few at once."""
        for _ in range(2):
            oldest = next(iter(self._left))
            if self._left[oldest][1] > full_since_s:
                return
            del self._left[oldest]

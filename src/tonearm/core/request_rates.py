"""Limits the rate of requests by address."""

import ipaddress
from collections import OrderedDict
from typing import Final

_HOUSEHOLD_BITS: Final = 64  # providers give a customer an IPv6 network with this prefix, or a larger one


def origin_of(address: str) -> str:
    """The key for counting connections: the IPv4 address, also for an IPv4-mapped address, or the IPv6 network
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
    """A token bucket for each address, which allows `a_second` requests per second. After a quiet time it allows
    `at_once` requests together, or `a_second` if that is more. An `a_second` of 0 allows all requests. Times are
    seconds of a monotonic clock; the caller passes them in."""

    def __init__(self, a_second: float, at_once: float = 1.0) -> None:
        self._a_second = a_second
        self._at_once = max(at_once, a_second)
        # By address: the remaining requests, and the time of that count. The newest address is last.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, address: str, now_s: float) -> float:
        """0 when a request from `address` is allowed now, which counts it; otherwise the seconds until one is
        allowed."""
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
        """Forgets up to two addresses whose buckets are full again: more than a request adds, but few at a time."""
        for _ in range(2):
            oldest = next(iter(self._left))
            if self._left[oldest][1] > full_since_s:
                return
            del self._left[oldest]

"""Which network addresses the node may dial.

The guard checks the address that is really dialled, so neither a name, a redirect nor an odd way to write an address
leads into a private network. A name is refused when one of its addresses is refused.
"""

import functools
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

from tonearm.sources.detached_threads import DetachedThreads

Address: TypeAlias = IPv4Address | IPv6Address
AddressInfo: TypeAlias = tuple[
    socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int]
]

_MAX_LOOKUPS: Final = 32  # at once
_BROADCAST: Final = IPv4Address(2**32 - 1)
# Networks that `is_global` allows, although they lead to this machine, to many hosts, or through a gateway to any host.
_NOT_PUBLIC_V4: Final = tuple(
    ip_network(text)
    for text in (
        "192.0.0.0/24",  # protocol assignments
        "192.88.99.0/24",  # 6to4 relays
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",
    )
)
# The only block of global unicast addresses; everything else is special (NAT64, fec0::/10, ::/96 …).
_GLOBAL_UNICAST_V6: Final = ip_network("2000::/3")
_NOT_PUBLIC_V6: Final = tuple(
    ip_network(text)
    for text in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4: carries an IPv4 address
        "3fff::/20",
    )
)


class AddressRefusedError(OSError):
    """An address that the node must not dial. An OSError, because aiohttp's code for connecting passes these on."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address not in _GLOBAL_UNICAST_V6 or any(address in network for network in _NOT_PUBLIC_V6):
            return False
    elif any(address in network for network in _NOT_PUBLIC_V4):
        return False
    return address.is_global


class AddressGuard:
    """Refuses addresses outside the open internet unless `private_networks` permits them, and always the node's own.

    With `one_machine`, multicast, broadcast and unspecified addresses are always refused, too. `is_public` says which
    addresses are on the open internet; `getaddrinfo` looks up names.
    """

    def __init__(
        self,
        *,
        private_networks: bool,
        one_machine: bool = False,
        is_public: Callable[[Address], bool] = is_public,
        getaddrinfo: Callable[..., list[AddressInfo]] = socket.getaddrinfo,  # type: ignore[assignment]
    ) -> None:
        self._private_networks = private_networks
        self._one_machine = one_machine
        self._is_public = is_public
        self.getaddrinfo = getaddrinfo
        self._own: set[tuple[Address | None, int]] = set()

    def add_own_address(self, host: str, port: int) -> None:
        """Adds a listening socket of the node. A host name or a wildcard address stands for every address of this
        machine."""
        address = _literal(host)
        self._own.add((None if address is None or address.is_unspecified else address, port))

    def check_address(self, ip: str, port: int) -> None:
        """Raises `AddressRefusedError` unless the literal address `ip` may be dialled."""
        address = _literal(ip)
        if address is None:
            raise AddressRefusedError(f"{ip!r} is not a network address.", "Check how the host is written.")
        if self._is_own(address, port):
            raise AddressRefusedError(
                "This is the node's own address and port.",
                "A node cannot play itself; give the address of the source.",
            )
        if self._one_machine and (address.is_multicast or address.is_unspecified or address == _BROADCAST):
            raise AddressRefusedError("No machine has this address.", "Check how the host is written.")
        if not self._private_networks and not self._is_public(address):
            raise AddressRefusedError(
                "The host leads to an address that is not on the open internet.",
                "Set sources.private_networks = true to allow private and local addresses.",
            )

    def check_host(self, host: str, port: int) -> None:
        """Raises `AddressRefusedError` for a host that is refused without a lookup: a literal address, or localhost.

        `host` is in the form of `SourceUri.host`.
        """
        if _literal(host) is not None:
            self.check_address(host, port)
        elif host == "localhost" or host.endswith(".localhost"):
            self.check_address("127.0.0.1", port)
            self.check_address("::1", port)

    def open_socket(
        self, addr_info: tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int]]
    ) -> socket.socket:
        """The socket for one dial, as aiohttp's `socket_factory`, which sees the address that is really dialled."""
        family, kind, protocol, _, address = addr_info
        self.check_address(address[0], address[1])
        return socket.socket(family, kind, protocol)

    def _is_own(self, address: Address, port: int) -> bool:
        for own, own_port in self._own:
            if own_port != port:
                continue
            # A connection to the unspecified address leads to this machine.
            if address == own or address.is_unspecified or (own is None and _is_local(address)):
                return True
        return False


class GuardedResolver(AbstractResolver):
    """Resolves names by the system's resolver. A name is refused when any of its addresses is refused."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._threads = DetachedThreads(_MAX_LOOKUPS)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host`.

        Raises `AddressRefusedError`, `socket.gaierror` when there is none, or `OSError` when the system cannot resolve.
        """
        try:
            infos = await self._threads.run(functools.partial(self._look_up, host, port, family))
        except UnicodeError as error:  # a label that is empty or longer than 63 characters
            raise socket.gaierror(socket.EAI_NONAME, "not a valid host name") from error
        results: list[ResolveResult] = []
        for found_family, _, protocol, _, address in infos:
            ip = str(address[0])
            self._guard.check_address(ip, port)
            results.append(
                ResolveResult(
                    hostname=host,
                    host=ip,
                    port=port,
                    family=found_family,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        return results

    async def close(self) -> None:
        """Does nothing: there is nothing to close."""

    def _look_up(self, host: str, port: int, family: socket.AddressFamily) -> list[AddressInfo]:
        try:
            return self._guard.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        except socket.gaierror:
            # Without a free descriptor the system says that the name does not exist; a socket raises the true reason.
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).close()
            raise


def _literal(text: str) -> Address | None:
    """`text` as an address without its zone, an IPv4-mapped address as IPv4; None when it is no address."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _is_local(address: Address) -> bool:
    """Whether an interface of this machine has the address: then a socket can be bound to it."""
    if address.is_loopback:
        return True
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True

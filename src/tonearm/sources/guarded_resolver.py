"""Name lookup that refuses a name as soon as one of its addresses must not be dialled."""

import functools
import socket
from typing import Final

from aiohttp.abc import AbstractResolver, ResolveResult

from tonearm.sources.address_guard import AddressGuard
from tonearm.sources.detached_threads import DetachedThreads

_LOOKUPS_AT_MOST: Final = 32


class GuardedResolver(AbstractResolver):
    """Looks names up with the system's resolver; any refused address among several refuses the name."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._threads = DetachedThreads(_LOOKUPS_AT_MOST)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of `host`. Raises `AddressRefusedError`, or `socket.gaierror` when there is none."""
        lookup = functools.partial(
            socket.getaddrinfo, host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        try:
            infos = await self._threads.run(lookup)
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
        """Nothing is held."""

"""TCP connections under the address guard, for what is not fetched by the HTTP client."""

import asyncio
import os
import socket
from typing import Final, TypeAlias

from tonearm.core.failure import FailureCode, PlayError, PlayFailure, Stage
from tonearm.core.source_uri import SourceUri
from tonearm.sources.address_guard import AddressGuard, AddressRefusedError
from tonearm.sources.guarded_resolver import GuardedResolver
from tonearm.sources.http_errors import refused

Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_BUFFER_BYTES: Final = 64 * 1024


class GuardedDialer:
    """Connects to hosts of admitted URIs; the guard is asked for each address that is dialled."""

    def __init__(self, guard: AddressGuard, connect_timeout_s: float) -> None:
        self._guard = guard
        self._resolver = GuardedResolver(guard)
        self._connect_timeout_s = connect_timeout_s

    async def dial(self, uri: SourceUri) -> Connection:
        """Raises `PlayError`. The timeout covers name lookup and all addresses of the name."""
        assert uri.host is not None
        assert uri.port is not None
        try:
            self._guard.check_host(uri.host, uri.port)
            async with asyncio.timeout(self._connect_timeout_s):
                return await self._dial(uri.host, uri.port)
        except AddressRefusedError as error:
            raise refused(error.message, error.hint) from error
        except socket.gaierror as error:
            message, hint = f"The host name {uri.host} was not found.", "Check how it is written."
            raise PlayError(PlayFailure(FailureCode.NAME_NOT_FOUND, Stage.CONNECT, message, hint)) from error
        except TimeoutError as error:
            message, hint = f"Connecting to {uri.host} took too long.", "Check that the server is up."
            raise PlayError(PlayFailure(FailureCode.TIMEOUT, Stage.CONNECT, message, hint)) from error
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else "it failed"
            message, hint = f"No connection to {uri.host}: {reason}.", "Check that the server is up."
            raise PlayError(PlayFailure(FailureCode.CONNECT_FAILED, Stage.CONNECT, message, hint)) from error

    async def _dial(self, host: str, port: int) -> Connection:
        last_error: OSError = OSError(0, "")
        for found in await self._resolver.resolve(host, port):
            address = (found["host"], port)
            try:
                connection = self._guard.open_socket((found["family"], socket.SOCK_STREAM, found["proto"], "", address))
            except AddressRefusedError:
                raise
            except OSError as error:  # a family that this machine does not have
                last_error = error
                continue
            try:
                connection.setblocking(False)
                await asyncio.get_running_loop().sock_connect(connection, address)
                return await asyncio.open_connection(sock=connection, limit=_BUFFER_BYTES)
            except OSError as error:
                connection.close()
                last_error = error
            except BaseException:
                connection.close()
                raise
        raise last_error

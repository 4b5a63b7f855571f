"""Web applications of the tests, on free ports of 127.0.0.1."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def serving(application: web.Application, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port at which it is served."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        port: int = runner.addresses[0][1]
        yield port
    finally:
        await runner.cleanup()

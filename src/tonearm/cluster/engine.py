"""NATS with JetStream as the shared store of a cluster. Keys are created once, written only over the revision that was
read, and watched. No other module uses NATS.

When the engine is gone, each call raises `EngineLost`, at once or after `CALL_TIMEOUT_S`. The connection is retried
without end. `nats-py` is imported here only.
"""

import asyncio
import base64
import contextlib
import json
import logging
import re
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import nats
import nats.errors
import nats.js.errors

from tonearm.core.metadata import JsonObject

CALL_TIMEOUT_S: Final = 1.0
_START_WITHIN_S: Final = 5.0
_AGAIN_AFTER_S: Final = 0.25
_WRONG_LAST: Final = frozenset({10071, 10164})  # the server's codes for: something else was written meanwhile
_SPARE_BYTES: Final = 256  # for the headers of a write, and for a next owner with a longer name
_REPLICAS: Final = 3  # on so many servers the engine keeps everything, so that it may lose one of them
_MADE_WITHIN_S: Final = 10.0  # several servers find each other and choose leaders first
_WORKS_FROM: Final = (2, 9, 10)

log = logging.getLogger(__name__)


class EngineLost(Exception):
    """The engine does not answer, or cannot be used; the message says why."""


class EngineRefused(EngineLost):
    """The engine refuses these credentials, or they cannot be read."""


class Conflict(Exception):
    """The key has another revision than the one that was read, or it exists and was to be created."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """`url`: the addresses of the engine's servers, separated by commas."""

    url: str
    user: str = ""
    password_file: Path | None = None
    credentials_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None


class Entry(NamedTuple):
    """`value` is a line of JSON, and maybe more behind it; empty for a key that was deleted."""

    key: str
    value: bytes
    revision: int

    @property
    def fields(self) -> JsonObject:
        """The JSON object in the first line; an empty one if there is something else, as any client may write it."""
        try:
            found = json.loads(self.value.partition(b"\n")[0])
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def body(self) -> bytes:
        """All that stands behind the first line."""
        return self.value.partition(b"\n")[2]


class Engine:
    """A connection from `connect` to `close`, made again whenever it breaks."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._servers = settings.url.split(",")
        self._connection: Any = None
        self._was_refused = False
        self._why = ""  # of the last try to connect that failed, behind a colon
        self.latency_s = 0.0  # of the last call

    async def connect(self) -> None:
        """Raises `EngineLost`, also as `EngineRefused`."""
        settings = self._settings
        try:
            async with asyncio.timeout(_START_WITHIN_S):
                self._connection = await nats.connect(
                    self._servers,
                    user=settings.user or None,
                    password=settings.password_file and _read(settings.password_file).strip(),
                    user_credentials=settings.credentials_file and _checked(settings.credentials_file),
                    tls=_tls(settings),
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=_AGAIN_AFTER_S,
                    ping_interval=2,
                    pending_size=0,  # a message that cannot be sent now is dropped, because it may be wrong later
                    error_cb=self._error,
                )
        except TimeoutError as error:  # nats-py retried during this time
            if self._was_refused:
                raise EngineRefused(f"{self._settings.url} refuses the credentials") from error
            raise EngineLost(f"{self._settings.url} does not answer{self._why}") from error
        except (OSError, nats.errors.Error, ValueError) as error:
            raise EngineLost(f"{self._settings.url}: {_reason(error)}") from error
        version = self._connection.connected_server_version
        if (version.major, version.minor, version.patch) < _WORKS_FROM:
            await self.close()
            wanted = ".".join(map(str, _WORKS_FROM))
            raise EngineLost(f"{self._settings.url} is NATS {version}; it takes {wanted} or newer")

    async def bucket(self, name: str) -> "Bucket":
        """The bucket, created if it does not exist. Raises `EngineLost`."""
        servers = len(self._servers)
        replicas = _REPLICAS if servers >= _REPLICAS else 1
        bucket = Bucket(self, self._connection.jetstream(timeout=CALL_TIMEOUT_S), name, replicas)
        until_s = time.monotonic() + (_MADE_WITHIN_S if servers > 1 else 0.0)
        while True:
            try:
                await bucket.open()
            except EngineLost:
                if time.monotonic() >= until_s:
                    raise
                await asyncio.sleep(_AGAIN_AFTER_S)
            else:
                return bucket

    @property
    def is_connected(self) -> bool:
        return bool(self._connection is not None and self._connection.is_connected)

    @property
    def reconnections(self) -> int:
        """How often the connection was made again."""
        return int(self._connection.stats["reconnects"])

    @property
    def largest_bytes(self) -> int:
        """The largest size of a value. The server's `max_payload` counts the headers of a write, too, and a server ends
        the connection over which more comes."""
        return int(self._connection.max_payload) - _SPARE_BYTES

    async def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Exception):  # whatever its state, the connection is not used again
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    await self._connection.close()

    async def _error(self, error: Exception) -> None:
        """Logs errors of the connection's own tasks, which would otherwise print a traceback."""
        self._why = f": {_reason(error)}"
        self._was_refused |= "authorization" in self._why.lower()
        log.debug("the cluster's engine%s", self._why)


class Bucket:
    """Keys may be any texts. All methods raise `EngineLost`."""

    def __init__(self, engine: Engine, stream: Any, name: str, replicas: int = 1) -> None:
        self._engine = engine
        self._stream = stream
        self._name = name
        self._replicas = replicas
        self._keys: Any = None
        self._created: object = None  # when the engine created it

    async def open(self) -> None:
        """Takes the bucket as it is, or creates it when the engine does not have it, or has lost it."""
        async with _answered(self._engine):
            try:
                self._keys = await self._stream.key_value(self._name)
            except nats.js.errors.BucketNotFoundError:
                self._keys = await self._stream.create_key_value(bucket=self._name, replicas=self._replicas)
            self._created = (await self._keys.status()).stream_info.created

    async def get(self, key: str) -> Entry | None:
        async with _answered(self._engine):
            try:
                found = await self._keys.get(_coded(key))
            except nats.js.errors.KeyNotFoundError:
                return None
            return Entry(key, found.value or b"", found.revision)

    async def create(self, key: str, value: bytes) -> int:
        """Returns the revision. Raises `Conflict` when the key exists."""
        async with _answered(self._engine):
            return int(await self._keys.create(_coded(key), value))

    async def update(self, key: str, value: bytes, last: int) -> int:
        """Writes over the revision `last`. Raises `Conflict` when there is another revision, or none."""
        async with _answered(self._engine):
            return int(await self._keys.update(_coded(key), value, last=last))

    async def delete(self, key: str, last: int) -> None:
        """Raises `Conflict` when the revision is not `last`."""
        async with _answered(self._engine):
            await self._keys.delete(_coded(key), last=last)

    async def watch(self, value_bytes: int | None = None) -> AsyncIterator[Entry | None]:
        """Opens the bucket. Yields all entries, then None once, then changes, until the connection breaks or the bucket
        is lost. Only the first `value_bytes` of values are kept."""
        await self.open()
        async with _answered(self._engine):
            watcher = await self._keys.watchall()
        reconnections = self._engine.reconnections
        try:
            while True:
                try:
                    with _cancellation_kept():
                        found = await watcher.updates(timeout=CALL_TIMEOUT_S)
                except nats.errors.TimeoutError:
                    # After an outage the engine may have lost its watchers without a word.
                    if self._engine.reconnections != reconnections or not self._engine.is_connected:
                        return
                    if not await self._is_there():
                        return
                    continue
                if found is None:
                    yield None
                elif (key := _decoded(found.key)) is not None:
                    value = b"" if found.operation else (found.value or b"")[:value_bytes]
                    yield Entry(key, value, found.revision)
        finally:
            with contextlib.suppress(Exception):  # an engine that is gone has no watcher any more
                async with asyncio.timeout(CALL_TIMEOUT_S):
                    await watcher.stop()

    async def _is_there(self) -> bool:
        """Whether the bucket is the one that was opened, and not one that was deleted, or created anew. True also when
        the engine does not say."""
        with contextlib.suppress(EngineLost):
            async with _answered(self._engine):
                try:
                    return bool((await self._keys.status()).stream_info.created == self._created)
                except nats.js.errors.NotFoundError:
                    return False
        return True


@contextlib.asynccontextmanager
async def _answered(engine: Engine) -> AsyncIterator[None]:
    """Translates the errors of a call, and measures its latency."""
    if not engine.is_connected:
        raise EngineLost("the connection is lost")
    begun_s = time.monotonic()
    try:
        with _cancellation_kept():
            async with asyncio.timeout(2 * CALL_TIMEOUT_S):
                yield
    except nats.js.errors.APIError as error:
        if isinstance(error, nats.js.errors.KeyWrongLastSequenceError) or error.err_code in _WRONG_LAST:
            raise Conflict from error
        raise EngineLost(_reason(error)) from error
    except TimeoutError as error:
        raise EngineLost("it does not answer") from error
    except (OSError, nats.errors.Error) as error:
        raise EngineLost(_reason(error)) from error
    engine.latency_s = time.monotonic() - begun_s


@contextlib.contextmanager
def _cancellation_kept() -> Iterator[None]:
    """`asyncio.wait_for` of Python 3.11, which NATS's client waits with, loses a cancellation that comes just as
    something is told. The task would go on, and whoever ends it would wait for ever."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        yield
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError


def _read(file: Path) -> str:
    """Raises `EngineRefused`."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise EngineRefused(f"{file} cannot be read: {getattr(error, 'strerror', error)}") from error


def _checked(credentials_file: Path) -> str:
    """The path for NATS's client, which looks for a JWT in the file without end. Raises `EngineRefused`."""
    if not re.search(r"BEGIN NATS USER JWT.*BEGIN USER NKEY SEED", _read(credentials_file), re.DOTALL):
        raise EngineRefused(f"{credentials_file} is no credentials file of NATS, which has a JWT and a seed")
    return str(credentials_file)


def _tls(settings: EngineSettings) -> ssl.SSLContext | None:
    """None for a connection as the address of the engine asks for. Raises `OSError` for a file that cannot be read."""
    if settings.ca_file is None and settings.cert_file is None:
        return None
    context = ssl.create_default_context(cafile=settings.ca_file)
    if settings.cert_file is not None:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    return context


def _coded(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def _decoded(key: str) -> str | None:
    """None for a key that no node of tonearm wrote."""
    try:
        return base64.urlsafe_b64decode(key + "=" * (-len(key) % 4)).decode()
    except ValueError:
        return None


def _reason(error: BaseException) -> str:
    """The reason of an error without the sent data, which may contain a password."""
    if isinstance(error, nats.js.errors.ServiceUnavailableError) and not error.description:  # nobody answers
        return "it has no JetStream; start it with -js"
    return str(getattr(error, "description", "") or error)[:200] or type(error).__name__

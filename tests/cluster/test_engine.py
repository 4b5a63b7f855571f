"""What NATS's client does with a task that is ended, without a server."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from nats.js.errors import ServiceUnavailableError
from nats.js.kv import KeyValue

from tonearm.cluster.engine import Bucket, Engine, EngineLost, EngineRefused, EngineSettings


class Watched:
    """As NATS's keys: what is told comes when the test says so. A call waits for that, too, as one to the server
    waits for its answer."""

    def __init__(self) -> None:
        self._watcher: Any = cast(Any, KeyValue).KeyWatcher(None)
        self._watcher._sub = self

    def tell(self) -> None:
        entry = KeyValue.Entry("b", "cA", b"", 1, None, None, None)
        self._watcher._updates.put_nowait(entry)

    async def key_value(self, _: str) -> Any:
        return self

    async def status(self) -> Any:
        return SimpleNamespace(stream_info=SimpleNamespace(created=1))

    async def watchall(self) -> Any:
        return self._watcher

    async def get(self, _: str) -> Any:
        return await self._watcher.updates(5.0)

    async def unsubscribe(self) -> None: ...


def watched(keys: Watched) -> Bucket:
    engine = Engine(EngineSettings("nats://nowhere"))
    engine._connection = type("Connected", (), {"is_connected": True, "stats": {"reconnects": 0}})
    bucket = Bucket(engine, keys, "b")
    bucket._keys = keys
    return bucket


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("what", ["watch", "call"])
async def test_a_task_ends_that_is_told_something_just_as_it_is_to_end(what: str, turns: int) -> None:
    """`asyncio.wait_for` of Python 3.11, which NATS's client uses, loses the cancellation then."""
    keys = Watched()
    bucket = watched(keys)
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        if what == "watch":
            async for _ in bucket.watch():
                pass
        await bucket.get("p")
        await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await begun.wait()
    for _ in range(10):
        await asyncio.sleep(0)  # it waits
    keys.tell()
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    ended, _ = await asyncio.wait([task], timeout=0.5)
    task.cancel()
    assert ended
    assert task.cancelled()


async def test_an_engine_without_jetstream_is_told_how_to_start() -> None:
    class NoJetStream(Watched):
        async def get(self, _: str) -> Any:
            raise ServiceUnavailableError  # as NATS's client does when nothing answers for JetStream

    with pytest.raises(EngineLost, match="it has no JetStream; start it with -js"):
        await watched(NoJetStream()).get("p")


@pytest.mark.parametrize("key", ["password_file", "credentials_file"])
async def test_a_file_that_is_missing_is_not_taken_for_a_missing_engine(tmp_path: Path, key: str) -> None:
    settings = EngineSettings("nats://127.0.0.1:1", "", **{key: tmp_path / "missing"})
    with pytest.raises(EngineRefused, match="missing cannot be read: No such file"):
        await Engine(settings).connect()


@pytest.mark.parametrize(
    "text", ["", "SUAKEY\n", "-----BEGIN NATS USER JWT-----\ne30\n------END NATS USER JWT------\n"]
)
async def test_a_file_without_credentials_is_not_read_for_ever(tmp_path: Path, text: str) -> None:
    """As NATS's client does, which holds the event loop meanwhile."""
    file = tmp_path / "my.creds"
    file.write_text(text)
    with pytest.raises(EngineRefused, match=r"my\.creds is no credentials file of NATS"):
        await Engine(EngineSettings("nats://127.0.0.1:1", credentials_file=file)).connect()

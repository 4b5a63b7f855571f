"""Prepared scripts of pages: which process prepares them, and which the node keeps for all processes and its next
start.

A process that has read a page may ask for a script to be prepared, but cannot choose the result. The result comes from
a process that has seen this one script and nothing else.
"""

import asyncio
import hashlib
import logging
import os
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import Final

from tonearm.sandbox.report import SandboxSupervision
from tonearm.sources.resolver.children import ChildBroken, ChildPool
from tonearm.sources.resolver.javascript import LARGEST_SCRIPT_BYTES, SOLVER, installed, script_key
from tonearm.sources.resolver.messages import Message

PREPARER: Final = (sys.executable, "-B", "-P", "-m", "tonearm.sources.resolver.preparer")
KEPT_AT_MOST: Final = 8
KEPT_BYTES: Final = 16 * 1024 * 1024
MEMORY_LIMIT_MB: Final = 512  # of addresses; the engine has 320, and all together stays below 400
_AT_ONCE: Final = 2
_WAITING_AT_MOST: Final = 16  # with those; each is held in memory
_PREPARED_WITHIN_S: Final = 300.0  # on a busy machine; the processor's time has a limit of its own
_START_WITHIN_S: Final = 60.0
_FAILED_FOR_S: Final = 600.0
_FAILURES_AT_MOST: Final = 100
_ENDING: Final = ".prepared"
_DIGEST_BYTES: Final = 32

log = logging.getLogger(__name__)


class PreparedScripts:
    """Prepared scripts by key, on one event loop, until `close`. With a `folder` they survive a restart. `sandbox`
    records the sandbox of the processes that prepare scripts."""

    def __init__(self, folder: Path | None, sandbox: SandboxSupervision, command: tuple[str, ...]) -> None:
        self._folder = folder
        self._solver = installed(SOLVER)
        self._kept: OrderedDict[str, bytes] = OrderedDict()  # the last used one last
        self._failed: OrderedDict[str, tuple[str, float]] = OrderedDict()  # why, and until when that is believed
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self._reading: asyncio.Task[None] | None = None
        self.pool = ChildPool(
            (*command, str(MEMORY_LIMIT_MB), sandbox.mode),
            at_most=_AT_ONCE,
            idle_s=0.0,
            warm_up={"op": "start"},
            start_s=_START_WITHIN_S,
            take_note=sandbox.take_note,
            answers_at_most=2,  # that of the warm-up, and one script
        )

    async def reply(self, key: object) -> tuple[Message, asyncio.Task[None] | None]:
        """The reply to a process that wants the script of `key`, and what to wait for while the script is being
        prepared."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_folder())
        await asyncio.shield(self._reading)
        if not isinstance(key, str):
            return Message({"error": "it has no key"}), None
        if (prepared := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return Message({}, prepared), None
        if (preparing := self._preparing.get(key)) is not None:
            return Message({"pending": True}), preparing
        why, until_s = self._failed.get(key, ("", 0.0))
        return Message({"error": why} if time.monotonic() < until_s else {"unknown": True}), None

    async def prepare(self, script: bytes) -> tuple[Message, asyncio.Task[None] | None]:
        """As `reply`, for a script whose key is not known."""
        if len(script) > LARGEST_SCRIPT_BYTES:
            return Message({"error": f"it has more than {LARGEST_SCRIPT_BYTES // 1024 // 1024} MiB"}), None
        key = await asyncio.to_thread(script_key, self._solver, script)
        reply, preparing = await self.reply(key)
        if "unknown" in reply.head and len(self._preparing) >= _WAITING_AT_MOST:
            return Message({"error": "too many others are being prepared"}), None
        if "unknown" in reply.head:
            preparing = self._preparing[key] = asyncio.create_task(self._prepare(key, script))
            preparing.add_done_callback(lambda _: self._preparing.pop(key, None))
            return Message({"pending": True}), preparing
        return reply, preparing

    async def close(self) -> None:
        """May be called more than once."""
        working = [*self._preparing.values(), *([self._reading] if self._reading is not None else ())]
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        await self.pool.close()

    async def _prepare(self, key: str, script: bytes) -> None:
        """Ends with the script prepared, or with a reason why not. Raises nothing."""
        try:
            answer = await self.pool.exchange(Message({"op": "prepare"}, script), _PREPARED_WITHIN_S)
            why = answer.head.get("error", "")
        except TimeoutError:
            why = f"to prepare it took longer than {_PREPARED_WITHIN_S:g} s"
        except ChildBroken as error:
            why = f"the process that prepares it failed, {error}"
        if why or not answer.body:
            self._failed[key] = str(why)[:200] or "nothing came of it", time.monotonic() + _FAILED_FOR_S
            if len(self._failed) > _FAILURES_AT_MOST:
                self._failed.popitem(last=False)
            return
        self._kept[key] = answer.body
        gone = self._evicted()
        if self._folder is not None:
            await asyncio.to_thread(_write, self._folder, key, answer.body, gone)

    def _evicted(self) -> list[str]:
        """Removes the least recently used scripts until the number is within the limit, and returns their keys."""
        gone: list[str] = []
        while len(self._kept) > KEPT_AT_MOST or sum(map(len, self._kept.values())) > KEPT_BYTES:
            gone.append(self._kept.popitem(last=False)[0])
        return gone

    async def _read_folder(self) -> None:
        if self._folder is not None:
            self._kept.update(await asyncio.to_thread(_read, self._folder))
            self._evicted()


def _read(folder: Path) -> list[tuple[str, bytes]]:
    """The complete scripts in `folder`, oldest first, at most as many as are kept."""
    found: list[tuple[str, bytes]] = []
    try:
        paths = sorted(folder.glob(f"*{_ENDING}"), key=lambda path: path.stat().st_mtime)
        for path in paths[-KEPT_AT_MOST:]:
            if path.stat().st_size <= KEPT_BYTES:
                data = path.read_bytes()
                digest, prepared = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
                if prepared and hashlib.sha256(prepared).digest() == digest:
                    found.append((path.name.removesuffix(_ENDING), prepared))
    except OSError as error:
        log.warning("prepared scripts cannot be read from %s: %s; they are prepared again", folder, error.strerror)
    return found


def _write(folder: Path, key: str, prepared: bytes, gone: list[str]) -> None:
    """Writes a script to `folder`; the file gets its name only when it is complete. Deletes the scripts `gone`."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        part = folder / f"{key}.part"
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(hashlib.sha256(prepared).digest() + prepared)
        part.rename(folder / f"{key}{_ENDING}")
        for other in gone:
            (folder / f"{other}{_ENDING}").unlink(missing_ok=True)
    except OSError as error:
        log.warning(
            "a prepared script cannot be saved in %s: %s; it is prepared again after a restart", folder, error.strerror
        )

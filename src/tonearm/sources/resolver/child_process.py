"""One resolving process as the node sees it: asked one thing at a time, killed when it is late."""

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process, create_subprocess_exec
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn, Self

from tonearm.core.json_value import Json, JsonObject

LARGEST_ANSWER_BYTES: Final = 256 * 1024
# What Python and OpenSSL need to find their files, no more: proxies, keys and settings of users stay outside.
_ENVIRONMENT: Final = (
    "PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip


class ChildBroken(Exception):
    """The process ended or answered what is no answer; it is of no use any more."""


class ChildProcess:
    """To be killed when its work is cancelled or failed: its answer could be taken for the next one."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.answers = 0

    @classmethod
    async def start(cls, command: Sequence[str]) -> Self:
        """Raises `OSError` when the system cannot."""
        process = await create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,
            limit=LARGEST_ANSWER_BYTES,
            env=child_environment(os.environ),
        )
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        output = self._process.stdout  # its end is seen before the process is reaped
        return self._process.returncode is not None or (output is not None and output.at_eof())

    async def ask(self, request: JsonObject) -> JsonObject:
        """Raises `ChildBroken`."""
        writer, reader = self._process.stdin, self._process.stdout
        assert writer is not None
        assert reader is not None
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            await writer.drain()
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            raise ChildBroken("its answer is too long") from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise ChildBroken("it ended without an answer") from error
        answer = _parsed(line)
        self.answers += 1
        return answer

    def kill(self) -> None:
        """Ends it and whatever it may have started."""
        with contextlib.suppress(ProcessLookupError):
            if self._process.returncode is None:  # reaped: its number may belong to another process
                os.killpg(self._process.pid, signal.SIGKILL)

    async def wait(self) -> None:
        """Returns once it has ended and is taken note of."""
        await self._process.wait()


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {name: environment[name] for name in _ENVIRONMENT if name in environment}
    return {**kept, "YTDLP_NO_PLUGINS": "1", "PYTHONUTF8": "1"}


def _parsed(line: bytes) -> JsonObject:
    try:
        answer: Json = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ChildBroken("its answer is not JSON") from error
    if not isinstance(answer, dict):
        raise ChildBroken("its answer is no object")
    return answer


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")

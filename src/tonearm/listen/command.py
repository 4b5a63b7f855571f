"""The command `tonearm listen`, from its options to its exit code."""

import asyncio
import contextlib
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tonearm.listen.display import Display
from tonearm.listen.outputs import Output, OutputEndedError, WavOutput, open_raw_output
from tonearm.listen.session import Ending, ListenError, Session

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1


@dataclass(frozen=True, slots=True)
class ListenOptions:
    player: str
    url: str
    password: str = field(repr=False)
    save: Path | None
    raw: bool


def listen(options: ListenOptions) -> int:
    """Listens until the node or the user ends it. 0 unless something went wrong."""
    return asyncio.run(_listen(options))


async def _listen(options: ListenOptions) -> int:
    # stdout belongs to the audio when it was asked for there.
    display = Display(sys.stderr if options.raw else sys.stdout)
    outputs: list[Output] = []
    session = Session(options.url, options.player, options.password, display, outputs)
    try:
        if options.save is not None:
            outputs.append(WavOutput(options.save))
        if options.raw:
            outputs.append(await open_raw_output(sys.stdout.buffer))
        ending = await _until_stopped(session)
        exit_code = EXIT_OK if ending.is_orderly else EXIT_FAILED
        display.say(f"{ending.sentence} {session.summary}.")
    except (ListenError, OutputEndedError) as error:
        sys.stderr.write(f"tonearm: {error}\n")
        exit_code = EXIT_FAILED
    for output in outputs:
        try:
            await output.close()
        except OutputEndedError as error:
            sys.stderr.write(f"tonearm: {error}\n")
            exit_code = EXIT_FAILED
    return exit_code


async def _until_stopped(session: Session) -> Ending:
    """SIGINT and SIGTERM end the listening as an orderly stop, so that files are finished."""
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(session.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        return await running
    return Ending("Stopped.", is_orderly=True)

"""The command `tonearm listen`, from its options to its exit code: a player's audio socket and its events socket."""

import asyncio
import contextlib
import math
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

import aiohttp

from tonearm import exit_codes
from tonearm.core.frame import FRAME_BYTES, FRAMES_PER_SECOND
from tonearm.listen.display import Display, Pacing, PlayerView
from tonearm.listen.meters import Meters
from tonearm.listen.outputs import Output, OutputEndedError, WavOutput, open_raw_output
from tonearm.protocol import close_codes

_CONNECT_PATIENCE_S: Final = 10.0
_HEARTBEAT_S: Final = 20.0  # a node that vanished is noticed

_CLOSE_SENTENCES: Final = {
    close_codes.DELETED: "The player was deleted.",
    close_codes.GOING_AWAY: "The node is shutting down.",
    close_codes.TOO_SLOW: "The node closed the connection, because it was too slow for the audio.",
}
_ORDERLY_CLOSES: Final = frozenset({close_codes.DELETED, close_codes.GOING_AWAY})


class ListenError(Exception):
    """Listening could not begin; the message is a sentence for the user."""


@dataclass(frozen=True, slots=True)
class Ending:
    """`is_orderly`: nothing went wrong."""

    sentence: str
    is_orderly: bool


class Session:
    """Listens to `player` on the node at `url` (http or https)."""

    def __init__(self, url: str, player: str, password: str, display: Display, outputs: Sequence[Output]) -> None:
        self._base_url = f"{url.rstrip('/')}/v0/players/{quote(player, safe='')}"
        self._url = url
        self._player = player
        self._password = password
        self._display = display
        self._outputs = outputs
        self._view = PlayerView()
        self._pacing = Pacing()
        self._meters = Meters()
        self._frames = 0

    async def run(self) -> Ending:
        """Until the audio socket ends or the task is cancelled. Raises `ListenError` and `OutputEndedError`."""
        headers = {"Authorization": self._password} if self._password else {}
        async with aiohttp.ClientSession(headers=headers) as client:
            # Events first, so that the first TrackStart is not missed.
            events = await self._connect(client, f"{self._base_url}/events?snapshot=true")
            audio = await self._connect(client, f"{self._base_url}/ws")
            self._display.say(f"listening to {self._player} on {self._url}; Ctrl-C stops")
            helpers = [asyncio.ensure_future(self._follow(events)), asyncio.ensure_future(self._draw())]
            try:
                return await self._hear(audio)
            finally:
                for helper in helpers:
                    helper.cancel()
                await asyncio.gather(*helpers, return_exceptions=True)

    @property
    def summary(self) -> str:
        heard = f"{self._frames / FRAMES_PER_SECOND:.1f} s heard"
        late = f"{self._pacing.late_frames} of {self._frames} frames late"
        lufs, peak_db = self._meters.integrated_lufs, self._meters.highest_true_peak_db
        if lufs == -math.inf:  # silence, or less than 400 ms
            return f"{heard}, {late}"
        return f"{heard}, {late}; {lufs:.1f} LUFS, true peak {peak_db:.1f} dBTP"

    async def _connect(self, client: aiohttp.ClientSession, url: str) -> aiohttp.ClientWebSocketResponse:
        try:
            async with asyncio.timeout(_CONNECT_PATIENCE_S):
                return await client.ws_connect(url, heartbeat=_HEARTBEAT_S)
        except aiohttp.WSServerHandshakeError as error:
            raise ListenError(await self._refusal(client, error.status)) from None
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, ValueError):
            raise ListenError(f"{self._url} is no address of a node; it looks like http://127.0.0.1:2333") from None
        except TimeoutError:
            raise ListenError(f"The node at {self._url} does not answer.") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ListenError(f"No node can be reached at {self._url} ({error}); is it running?") from None

    async def _refusal(self, client: aiohttp.ClientSession, status: int) -> str:
        match status:
            case 401 if self._password:
                return "The node refused the password; look at --password or TONEARM_SERVER__PASSWORD."
            case 401:
                return "The node wants its password: use --password or set TONEARM_SERVER__PASSWORD."
            case 404 if not await self._is_node(client):
                return f"What answers at {self._url} is another server and no tonearm node; look at --url."
            case 404:
                return f"There is no player {self._player!r} on the node; GET {self._url}/v0/players lists them."
            case 429:
                return f"The player {self._player!r} has as many listeners as the node allows."
            case _:
                return f"The node refused the connection with status {status}; is {self._url} a tonearm node?"

    async def _is_node(self, client: aiohttp.ClientSession) -> bool:
        """Whether the server answers as a node does that has no such player."""
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
            async with asyncio.timeout(_CONNECT_PATIENCE_S), client.get(self._base_url) as answer:
                body = await answer.json(content_type=None)
                return isinstance(body, dict) and "code" in body and "message" in body
        return False

    async def _hear(self, audio: aiohttp.ClientWebSocketResponse) -> Ending:
        async for message in audio:
            if message.type is not aiohttp.WSMsgType.BINARY or len(message.data) != FRAME_BYTES:
                continue
            self._pacing.arrived(time.monotonic())
            self._frames += 1
            self._view.frame_heard()
            self._meters.add(message.data)
            for output in self._outputs:
                output.write(message.data)
        code = audio.close_code
        sentence = _CLOSE_SENTENCES.get(code or 0, "The connection to the node was lost.")
        return Ending(sentence, code in _ORDERLY_CLOSES)

    async def _follow(self, events: aiohttp.ClientWebSocketResponse) -> None:
        async for message in events:
            if message.type is aiohttp.WSMsgType.TEXT:
                is_break, sentence = self._view.take(message.data)
                if is_break:
                    self._pacing.interrupted()
                if sentence:
                    self._display.say(sentence)

    async def _draw(self) -> None:
        while True:
            await asyncio.sleep(self._display.interval_s)
            self._display.show(self._view, self._meters.take(), self._pacing.late_frames)


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
        exit_code = exit_codes.OK if ending.is_orderly else exit_codes.FAILED
        display.say(f"{ending.sentence} {session.summary}.")
    except (ListenError, OutputEndedError) as error:
        sys.stderr.write(f"tonearm: {error}\n")
        exit_code = exit_codes.FAILED
    for output in outputs:
        try:
            await output.close()
        except OutputEndedError as error:
            sys.stderr.write(f"tonearm: {error}\n")
            exit_code = exit_codes.FAILED
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

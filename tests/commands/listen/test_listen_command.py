"""`tonearm listen` against a server whose messages the test chooses."""

import asyncio
import re
import signal
import wave
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from aiohttp import WSCloseCode, web

from tests.support.command import RunningTonearm
from tests.support.listened_node import ListenedNode, Talk, event, say_nothing, track
from tonearm.core.frame import FRAME_BYTES
from tonearm.protocol.framing import HEADER

FRAME = bytes(range(256)) * (FRAME_BYTES // 256)


def framed(number: int, frame: bytes = FRAME) -> bytes:
    return HEADER.pack(1, 0, len(frame), number, number * 20_000) + frame


def frames_then(code: int, length: int = 3) -> Talk:
    """Sends frames and closes."""

    async def talk(socket: web.WebSocketResponse) -> None:
        for number in range(1, length + 1):
            await socket.send_bytes(framed(number))
        await socket.close(code=code)

    return talk


async def frames_without_end(socket: web.WebSocketResponse) -> None:
    for number in count(1):
        if socket.closed:
            return
        await socket.send_bytes(framed(number))
        await asyncio.sleep(0.02)


async def cut(socket: web.WebSocketResponse) -> None:
    assert socket._req is not None
    assert socket._req.transport is not None
    socket._req.transport.abort()


Listen = Callable[..., Awaitable[RunningTonearm]]


@pytest.fixture
async def listen(tmp_path: Path) -> AsyncIterator[Listen]:
    """Starts the command in a process of its own; those that are left over are ended."""
    started: list[RunningTonearm] = []

    async def begin(node: ListenedNode, *arguments: str, player: str = "p") -> RunningTonearm:
        words = ("listen", player, "--url", node.url, *arguments)
        started.append(await asyncio.to_thread(partial(RunningTonearm, *words, folder=tmp_path)))
        return started[-1]

    yield begin
    for process in started:
        await asyncio.to_thread(process.end)


async def end(process: RunningTonearm) -> tuple[int, bytes, str]:
    """Its exit code, stdout and stderr, once it ended by itself."""
    out, errors = await asyncio.to_thread(process.communicate)
    return await asyncio.to_thread(process.wait), out, errors.decode()


async def line(process: RunningTonearm) -> str:
    """The next one of its stdout."""
    return (await asyncio.to_thread(process.stdout.readline)).decode()


async def test_it_ends_with_the_player(listen: Listen) -> None:
    async with ListenedNode(audio=frames_then(WSCloseCode.OK)).running() as node:
        returned, out, errors = await end(await listen(node, player="a/b?c"))
        unwritten = await end(await listen(node, "--save", "no/such/folder.wav"))
    assert (returned, errors) == (0, "")
    assert re.match(r"The player was deleted\. 0\.1 s heard, \d of 3 frames late", out.decode().splitlines()[-1])
    assert all(path.startswith("/v0/players/a%2Fb%3Fc/") for path in node.asked[1:3])
    assert unwritten == (1, b"", "tonearm: no/such/folder.wav cannot be written: No such file or directory.\n")


@pytest.mark.parametrize("code", [WSCloseCode.GOING_AWAY, WSCloseCode.TRY_AGAIN_LATER, None])
async def test_a_connection_that_is_lost_is_taken_up_again(listen: Listen, code: int | None) -> None:
    """At a restart of the node, for a listener that was too slow, and where a network fails."""
    asked = []

    async def lost_once(socket: web.WebSocketResponse, then: Talk) -> None:
        asked.append(socket)
        if len(asked) > 2:  # one of events, one of sound
            await then(socket)
        elif code is None:
            await cut(socket)
        else:
            await socket.close(code=code)

    async def events(socket: web.WebSocketResponse) -> None:
        await socket.send_str(event("PlayerState", state="playing", track=track("Song"), trackId="t"))
        await lost_once(socket, say_nothing)

    audio = partial(lost_once, then=frames_then(WSCloseCode.OK, 40))
    async with ListenedNode(audio=audio, events=events).running() as node:
        returned, out, errors = await end(await listen(node, "--raw"))
    assert (returned, out) == (0, FRAME * 40)
    assert "The player was deleted." in errors


async def test_a_node_that_stays_away_is_told_and_the_file_finished(listen: Listen, tmp_path: Path) -> None:
    async def events(socket: web.WebSocketResponse) -> None:
        await socket.send_str(event("PlayerState"))
        await heard.wait()
        await socket.close(code=WSCloseCode.GOING_AWAY)

    async def audio(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(framed(1))
        await say_nothing(socket)

    heard = asyncio.Event()
    async with ListenedNode(audio=audio, events=events).running() as node:
        listener = await listen(node, "--wait", "0", "--save", "heard.wav")
        while not re.search(r"\d dBTP", await line(listener)):
            pass
        heard.set()
        returned, out, errors = await end(listener)
    assert (returned, errors) == (4, "tonearm: The node did not come back within 0 s.\n")
    assert "The node is shutting down." in out.decode()
    with wave.open(str(tmp_path / "heard.wav"), "rb") as file:
        assert file.getnframes() == 960


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_cleanly_and_finishes_the_file(
    listen: Listen, tmp_path: Path, number: signal.Signals
) -> None:
    async with ListenedNode(audio=frames_without_end).running() as node:
        listener = await listen(node, "--save", "heard.wav")
        for _ in range(2):
            await line(listener)
        listener.send_signal(number)
        returned, out, errors = await end(listener)
    assert (returned, errors) == (0, "")
    assert re.search(r"Stopped\. .*; -?\d+\.\d LUFS, true peak -?\d+\.\d dBTP\.\n$", out.decode())
    with wave.open(str(tmp_path / "heard.wav"), "rb") as heard:
        assert (heard.getnchannels(), heard.getsampwidth(), heard.getframerate()) == (2, 2, 48000)
        assert heard.getnframes() > 0
        assert heard.readframes(960) == FRAME


async def test_raw_ends_with_the_program_that_reads(listen: Listen) -> None:
    async with ListenedNode(audio=frames_without_end).running() as node:
        listener = await listen(node, "--raw")
        await asyncio.to_thread(listener.stdout.read, FRAME_BYTES)
        listener.stdout.close()
        errors = (await asyncio.to_thread(listener.stderr.read)).decode()
        assert await asyncio.to_thread(listener.wait) == 1
    assert "tonearm: The program that reads the audio has ended" in errors

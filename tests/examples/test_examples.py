"""The programs in examples/ do what they say."""

import asyncio
import contextlib
import json
import shutil
import subprocess
from asyncio.subprocess import PIPE
from collections.abc import Awaitable, Callable
from pathlib import Path
from runpy import run_path
from sys import executable
from types import SimpleNamespace
from typing import Any

import pytest
from discord.app_commands import AppCommandError

from tests.support.audio_files import music, wav
from tests.support.e2e_players import IMPATIENT
from tests.support.environment import environment, variables
from tests.support.eventually import eventually
from tests.support.fake_voice import FakeInteraction, fake_voice, without_discord
from tests.support.missing_programs import skip_for_want_of
from tests.support.readme import REPOSITORY
from tests.support.running_node import RunningNode, running_node
from tonearm.client import Node

EXAMPLES = REPOSITORY / "examples"


async def started(name: str, process: RunningNode, *arguments: str) -> asyncio.subprocess.Process:
    command = [executable, "-u", str(EXAMPLES / f"{name}.py"), *arguments]
    variables = environment({"TONEARM_URL": process.url})
    return await asyncio.create_subprocess_exec(*command, cwd=process.folder, env=variables, stdout=PIPE)


async def line_of(program: asyncio.subprocess.Process, word: str) -> str:
    assert program.stdout is not None
    async with asyncio.timeout(60):
        while word not in (line := (await program.stdout.readline()).decode()):
            assert line, f"it ended without a word of {word}"
    return line


Say = Callable[..., Awaitable[str]]


async def conversation(say: Say, heard: Callable[[int], Awaitable[object]], songs: Path) -> None:
    """What is said to a music bot, and what it answers, up to its farewell. `heard` waits for so many packets."""

    async def shown(start: str) -> bool:
        return (await say("now")).startswith(start)

    assert await say("play", what=(songs / "one.wav").as_uri()) == "Queued: one (0:20)"
    async with asyncio.timeout(60):
        await heard(50)
    assert await say("play", what=(songs / "two.wav").as_uri()) == "Queued: two (0:20)"
    assert await say("play", what=(songs / "three.wav").as_uri()) == "Queued: three (0:20)"
    assert await say("queue") == "1. two (0:20)\n2. three (0:20)"
    assert "no such file" in (await say("play", what=(songs / "nothing.wav").as_uri())).lower()
    for words in ("AC/DC Thunderstruck", "Mr. Brightside"):  # no files: searches, for which this node has no resolver
        assert "resolver.enabled" in await say("play", what=words)
    assert await shown("one: 0:0")
    assert await say("seek", second=10) == "At 0:10."
    assert await say("volume", percent=50) == "Volume 50 %."
    assert await say("preset", name="nightcore") == "Sound: nightcore."
    await eventually(lambda: shown("one: 0:1"), "it has sought")
    assert await say("skip") == "Skipped."
    await eventually(lambda: shown("two: "), "the next one plays")
    assert await say("leave") == "Bye."


@pytest.fixture
def songs(tmp_path: Path) -> Path:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}.wav").write_bytes(wav(music(20.0)))
    return tmp_path


async def test_the_music_bot(songs: Path) -> None:
    async with running_node(songs, IMPATIENT) as process, fake_voice() as voice:
        with variables(TONEARM_URL=process.url):
            program = SimpleNamespace(**run_path(str(EXAMPLES / "music_bot.py")))
        bot = program.bot
        await process.request("POST", "/v0/players", {"id": "guild-1", "uri": "two.wav"})  # before it was stopped
        with without_discord():
            await bot.setup_hook()
        user = FakeInteraction(voice.channel)

        async def say(command: str, **arguments: object) -> str:
            try:
                await bot.tree.get_command(command).callback(user, **arguments)
            except AppCommandError as error:
                await program.on_error(user, error)
            return user.said[-1]

        await conversation(say, voice.heard, songs)
        assert voice.channel.voice_client is None
        await bot.node.close()


def node_js(folder: Path) -> list[str]:
    """The command for a program in `folder`, which finds stand-ins for Discord's libraries there."""
    found = shutil.which("node")
    if found is None:
        skip_for_want_of("node")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout
    major, minor = map(int, version.lstrip("v").split(".")[:2])
    if (major, minor) < (20, 10):
        skip_for_want_of("node 20.10 or newer")
    for name, file in (("discord.js", "discord.js"), ("@discordjs/voice", "voice.js")):
        place = folder / "node_modules" / name
        place.mkdir(parents=True)
        (place / "package.json").write_text(json.dumps({"type": "module", "exports": "./index.js"}))
        shutil.copy(Path(__file__).parent / "stand_ins" / file, place / "index.js")
    return [found] if major >= 22 else [found, "--experimental-websocket"]


async def test_the_music_bot_in_javascript(songs: Path) -> None:
    program = [*node_js(songs), shutil.copy(EXAMPLES / "music_bot.mjs", songs)]
    config, with_password = f'[server]\npassword = "sesame"\n{IMPATIENT}', (("Authorization", "sesame"),)
    async with running_node(songs, config) as process:
        variables = environment({"TONEARM_URL": process.url, "TONEARM_PASSWORD": "sesame"})
        bot: Any = await asyncio.create_subprocess_exec(*program, cwd=songs, env=variables, stdin=PIPE, stdout=PIPE)
        told: dict[str, asyncio.Queue[Any]] = {kind: asyncio.Queue() for kind in ("commands", "said", "opus")}

        async def read() -> None:
            async for line in bot.stdout:
                ((kind, value),) = json.loads(line).items()
                told[kind].put_nowait(value)

        async def say(command: str, **options: object) -> str:
            bot.stdin.write(json.dumps({"command": command, "options": options}).encode() + b"\n")
            return str(await asyncio.wait_for(told["said"].get(), 60))

        async def heard(count: int) -> None:
            while count:
                count -= await told["opus"].get() != "+P/+"  # silence

        reading = asyncio.create_task(read())
        try:
            assert len(await told["commands"].get()) == 8
            await say("volume", percent=100)
            lost = await process.request("DELETE", "/v0/players/guild-81", headers=with_password)
            assert lost.status == 204  # as after a restart of the node
            await conversation(say, heard, songs)
            bot.stdin.close()
            assert await asyncio.wait_for(bot.wait(), 60) == 0
            assert (await process.request("GET", "/v0/players", headers=with_password)).json() == []
        finally:
            with contextlib.suppress(ProcessLookupError):
                bot.kill()
            await reading


async def test_something_is_said_over_the_music(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(wav(music(20.0)))
    (tmp_path / "bell.wav").write_bytes(wav(music(0.3)))
    async with running_node(tmp_path, IMPATIENT) as process, Node(process.url) as node:
        player = await node.create_player("lobby", "song.wav")
        async with player.audio():
            program = await started("announce", process, "lobby", "bell.wav", "missing.wav")
            assert "bell.wav" in await line_of(program, "over")
            assert "no such file" in (await line_of(program, "not played")).lower()
            assert await asyncio.wait_for(program.wait(), 60) == 0


async def test_a_player_outlives_its_node(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.wav").write_bytes(wav(music(30.0)))
    async with running_node(tmp_path, IMPATIENT) as process:
        program = await started("outlives_restarts", process, "radio", "one.wav", "two.wav")
        try:
            assert await line_of(program, "plays") == "plays one\n"
            async with Node(process.url) as node:
                player = await node.player("radio").refresh()
                await player.seek(12_000)
                await eventually(lambda: player.position >= 14_500, "the program, which looks each second, has looked")
            port = process.port
            await asyncio.to_thread(process.stop)
            async with running_node(tmp_path, IMPATIENT, arguments=("--port", str(port))) as again:
                assert 12 <= int((await line_of(program, "goes on")).split()[3]) < 25

                async def has_its_tracks() -> bool:
                    answer = await again.request("GET", "/v0/players/radio/queue")
                    return [entry["uri"] for entry in answer.json()] == ["two.wav"]

                await eventually(has_its_tracks, "the tracks are there again")
        finally:
            with contextlib.suppress(ProcessLookupError):  # it ends by itself when its node is gone at a bad moment
                program.kill()
            await program.wait()

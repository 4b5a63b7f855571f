"""What README.md and docs/tour.md promise, done as their readers do it. Only the node's address is another one."""

import asyncio
import json
import shlex
import sys
import wave
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.audio_files import music, wav
from tests.support.e2e_players import IMPATIENT
from tests.support.environment import environment
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.fake_voice import fake_voice
from tests.support.missing_programs import needs
from tests.support.pasting import pasted
from tests.support.readme import REPOSITORY, anchors, blocks, relative_links
from tests.support.running_node import RunningNode, running_node
from tonearm import VERSION
from tonearm.config.load import toml_value
from tonearm.config.schema import SECTIONS
from tonearm.core.frame import FRAME_BYTES, FRAMES_PER_SECOND

ADDRESS = "http://127.0.0.1:2333"
CLIP = "src/tonearm/clips/welcome.opus"
DOCUMENTS = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "bench/*.md") for path in REPOSITORY.glob(pattern) if path.is_file()
)

TOUR_TEXT = (REPOSITORY / "docs" / "tour.md").read_text(encoding="utf-8")
TOUR = blocks("sh", TOUR_TEXT)
# One for each curl of the tour.
TOUR_STATUSES = [201, 200, 204, 204, 201, 200, 204, 204, 201, 204, 204, 204, 204]
LISTENER, EVENTS = blocks("python", TOUR_TEXT)
DISCORD_BOT, PROGRAM = blocks("python")


@asynccontextmanager
async def node_of_the_tour(folder: Path) -> AsyncIterator[RunningNode]:
    """A node whose working folder looks like the repository."""
    (folder / "src").symlink_to(REPOSITORY / "src")
    async with running_node(folder) as node:
        yield node


@asynccontextmanager
async def started(*arguments: str, folder: Path) -> AsyncIterator[Process]:
    """This Python with `arguments`, killed at the end if it did not end before."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=folder, env=environment(), stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def output_of(process: Process) -> str:
    """What is printed up to the end, which must come and be a good one."""
    output, errors = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert (process.returncode, errors.decode()) == (0, "")
    return output.decode()


@needs("curl")
async def test_the_tour_with_its_listeners(tmp_path: Path) -> None:
    (listen_command,) = (shlex.split(block) for block in blocks("", TOUR_TEXT) if " listen " in block)
    raw, second = tmp_path / "tour.raw", FRAMES_PER_SECOND * FRAME_BYTES
    async with node_of_the_tour(tmp_path) as node, AsyncExitStack() as programs:

        async def paste(block: int) -> tuple[list[int], str]:
            return await pasted(TOUR[block], tmp_path, here={ADDRESS: node.url}, before=TOUR[:block])

        (shown,) = map(json.loads, blocks("json", TOUR_TEXT))
        answer = await node.request("GET", shown["path"])
        assert answer.status == shown["status"]
        assert {**answer.json(), "timestamp": 0, "requestId": ""} == {**shown, "timestamp": 0, "requestId": ""}

        told_to_shell = [await paste(0)]
        listener, events, terminal = [
            await programs.enter_async_context(started(*arguments, folder=tmp_path))
            for arguments in (
                ("-c", LISTENER.replace(ADDRESS, node.url)),
                ("-u", "-c", EVENTS.replace(ADDRESS, node.url)),
                ("-m", "tonearm", *listen_command[1:], "--url", node.url),
            )
        ]
        assert events.stdout is not None
        snapshot = json.loads(await events.stdout.readline())
        await eventually(lambda: raw.exists() and raw.stat().st_size >= second, "a second of sound")
        assert terminal.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while b"Welcome" not in (line := await terminal.stdout.readline()):
                assert line, "it ended without a word of it"

        told_to_shell += [await paste(block) for block in range(1, len(TOUR))]
        assert [status for statuses, _ in told_to_shell for status in statuses] == TOUR_STATUSES
        assert json.loads(told_to_shell[0][1]) == {"id": "tour"}
        assert json.loads(told_to_shell[1][1])["state"] == "playing"

        assert await output_of(listener) == ""
        assert "The player was deleted." in await output_of(terminal)
        told = [json.loads(line) for line in (await output_of(events)).splitlines()]

    sound = raw.read_bytes()
    assert len(sound) % FRAME_BYTES == 0
    assert any(sound)
    with wave.open(str(tmp_path / "tour.wav")) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (48_000, 2, 2)
    assert snapshot["op"] == "PlayerState"
    kinds = [event["op"] for event in told]
    assert kinds[-1] == "PlayerDelete"
    changes = {"LoopModeChange", "FiltersChange", "QueueUpdate", "MetadataChange", "PlayerPause", "PlayerResume"}
    assert changes < set(kinds)
    assert "skipped" in [event["reason"] for event in told if event["op"] == "TrackEnd"]


async def test_a_bot_plays_in_a_channel(tmp_path: Path) -> None:
    async with node_of_the_tour(tmp_path) as process, fake_voice() as voice:
        program: dict[str, Any] = {}
        exec(DISCORD_BOT.replace(ADDRESS, process.url), program)  # noqa: S102 - what a reader pastes
        async with program["node"], asyncio.timeout(PATIENCE_S):
            await program["play"](voice.channel, CLIP)
            assert any(await voice.heard(20))


def test_the_configuration_is_the_one_of_the_code() -> None:
    """Every key with its default and its description. The version of this release is left open."""
    table = "| Key | Default | Meaning |\n|---|---|---|"
    for section, model in SECTIONS.items():
        for key, field in model.model_fields.items():
            default = toml_value(field.get_default(call_default_factory=True)).replace(VERSION, "<version>")
            description = (field.description or "").replace("|", "\\|")
            table += f"\n| `{section}.{key}` | `{default}` | {description} |"
    text = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert table in text, f"put this table into docs/configuration.md:\n{table}"


async def test_the_program_plays_to_the_end_of_its_queue(tmp_path: Path) -> None:
    for name in ("song", "next"):
        (tmp_path / f"{name}.flac").write_bytes(wav(music(2.0)))  # what a file is decides what is in it
    async with (
        running_node(tmp_path, IMPATIENT) as node,
        started("-c", PROGRAM.replace(ADDRESS, node.url), folder=tmp_path) as program,
    ):
        assert await output_of(program) == f"{node.url}/v0/players/lobby/stream.mp3\n"


def test_links_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for link in relative_links(document):
            path, _, anchor = link.partition("#")
            target = (document.parent / path) if path else document
            assert target.exists(), f"{document}: {link} leads nowhere"
            assert not anchor or anchor in anchors(target), f"{document}: {link}: there is no such heading"

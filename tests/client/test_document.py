"""The programs in docs/client.md run, and what it names is there."""

import re
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from pathlib import Path
from subprocess import run
from sys import executable

import pytest

from tests.support.audio_files import music, wav
from tests.support.e2e_players import IMPATIENT
from tests.support.environment import environment
from tests.support.readme import REPOSITORY, blocks
from tests.support.running_node import RunningNode, running_node
from tonearm.client import Node, Player, Queue

DOCUMENT = (REPOSITORY / "docs" / "client.md").read_text(encoding="utf-8")
FIRST, SOUND = blocks("python", DOCUMENT)


def output_of(program: str, process: RunningNode) -> str:
    clip = str(process.folder / "clip.wav")
    program = program.replace("http://127.0.0.1:2333", process.url)
    program = program.replace("https://radio.example/jingle.mp3", clip).replace("song.flac", "song.wav")
    command = [executable, "-c", program]
    done = run(command, cwd=process.folder, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


async def test_the_first_program_plays_to_the_end_of_its_queue(tmp_path: Path) -> None:
    (tmp_path / "song.wav").write_bytes(wav(music(3.0)))
    (tmp_path / "clip.wav").write_bytes(wav(music(0.2)))
    async with running_node(tmp_path, IMPATIENT) as process:
        assert output_of(FIRST, process) == "now: song\nnow: clip\nnow: song\n"


async def test_the_packages_own_page_shows_how_it_begins(process: RunningNode) -> None:
    (block,) = blocks("python", (REPOSITORY / "client" / "README.md").read_text(encoding="utf-8"))
    (process.folder / "song.flac").write_bytes(wav(music(0.2)))
    code = compile(block.replace("http://127.0.0.1:2333", process.url), "README.md", "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, {})  # noqa: S307 - what a reader pastes
    assert (await process.request("GET", "/v0/players/lobby")).status == 200


def test_the_second_program_writes_a_second_of_sound(process: RunningNode) -> None:
    assert re.fullmatch(r"\d\d frames, 0 lost\n", output_of(SOUND, process))
    raw = Path(process.folder / "radio.raw").read_bytes()
    assert len(raw) % 3840 == 0
    assert any(raw)


@pytest.mark.parametrize("name", ["client", "migrating"])
def test_the_verbs_that_documents_name_are_there(name: str) -> None:
    text = (REPOSITORY / "docs" / f"{name}.md").read_text(encoding="utf-8")
    named = re.findall(r"[` ](node|player|queue)\.([a-z_]+)", text)
    assert len(named) > 5
    for owner, verb in named:
        assert hasattr({"node": Node, "player": Player, "queue": Queue}[owner], verb) or verb == "queue", (owner, verb)

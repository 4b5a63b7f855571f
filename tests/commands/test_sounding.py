"""`tonearm play` and `listen` aloud, measured at a program named as one that plays, which keeps what it gets."""

import asyncio
import os
import signal
import wave
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from tests.support.audio_files import tone, wav
from tests.support.command import RunningTonearm, run_tonearm
from tests.support.e2e_players import IMPATIENT
from tests.support.eventually import eventually
from tests.support.running_node import RunningNode, shared_node
from tonearm.core.frame import FRAME_BYTES

SOUND = wav(tone(440, 1.0))
# It plays to its end, as programs do, and says so.
GOOD = 'echo "$@" > $HOME/given; cat > $HOME/heard; echo done > $HOME/ended'
NONE = "No program that plays sound was found (mpv, ffplay, pw-play, paplay, aplay); install one, or listen at http://"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with shared_node(tmp_path_factory.mktemp("sounding"), IMPATIENT) as process:
        yield process


class Programs:
    """A PATH with nothing else than what is put there."""

    def __init__(self, folder: Path, node: RunningNode) -> None:
        self.folder = folder
        self.variables = {"TONEARM_URL": node.url, "PATH": str(folder / "bin"), "HOME": str(folder)}
        (folder / "bin").mkdir()
        (folder / "song.wav").write_bytes(SOUND)

    def put(self, name: str, script: str) -> None:
        program = self.folder / "bin" / name
        start = "" if script.startswith("\x7fELF") else f"#!/bin/sh\nPATH={os.environ['PATH']}\n"
        program.write_text(f"{start}{script}\n")
        program.chmod(0o755)

    def play(self, *arguments: str) -> tuple[int, str, str]:
        done = run_tonearm("play", *arguments, folder=self.folder, variables=self.variables)
        return done.returncode, done.stdout, done.stderr

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


@pytest.fixture
def programs(tmp_path: Path, node: RunningNode) -> Programs:
    return Programs(tmp_path, node)


def test_the_first_program_that_is_there_hears_all_of_it(programs: Programs) -> None:
    programs.put("aplay", "exit 1")
    programs.put("pw-play", "echo 'no such thing as raw'")  # too old to read PCM
    programs.put("paplay", GOOD)
    assert programs.play("song.wav") == (0, "song\n", "tonearm: playing through paplay\n")
    assert b"--format=s16le --rate=48000 --channels=2" in programs.read("given")
    assert programs.read("ended") == b"done\n"
    with wave.open(BytesIO(SOUND)) as sent:
        played = frames_of(sent.readframes(sent.getnframes()))
    heard = frames_of(programs.read("heard"))
    left = iter(played)
    assert all(frame in left for frame in heard)  # in this order
    # A machine that has much else to do may lose some in between.
    assert (heard[0], heard[-1], len(heard) > len(played) // 2) == (played[0], played[-1], True)


def frames_of(pcm: bytes) -> list[bytes]:
    return [pcm[start : start + FRAME_BYTES] for start in range(0, len(pcm), FRAME_BYTES)]


def test_a_program_can_be_chosen_or_none(programs: Programs) -> None:
    programs.put("mpv", "exit 1")
    programs.put("aplay", GOOD)
    assert programs.play("song.wav", "--output", "aplay", "--json")[2] == "tonearm: playing through aplay\n"
    assert len(programs.read("heard")) > 48_000
    (programs.folder / "heard").unlink()
    assert programs.play("song.wav", "--output", "aplay", "--silent") == (0, "song\n", "")
    assert not (programs.folder / "heard").exists()
    lacking = "tonearm: ffplay was not found on the PATH; install it, or leave out --output.\n"
    assert programs.play("song.wav", "--output", "ffplay") == (1, "", lacking)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (None, NONE),
        ("read line; echo 'no device' >&2; exit 3", "mpv ended unexpectedly: no device; there is no more sound"),
        ("exec <&-; exec sleep 600", "mpv ended unexpectedly; there is no more sound here."),
        ("\x7fELF", "tonearm: mpv cannot be started: Exec format error; there is no sound here.\n"),
    ],
)
def test_a_program_that_fails_is_told_and_it_goes_on(programs: Programs, script: str | None, told: str) -> None:
    if script is not None:
        programs.put("mpv", script)
    code, shown, errors = programs.play("song.wav", "song.wav")
    assert (code, shown, told in errors, errors.count("\n")) == (0, "song\nsong\n", True, 1 if script is None else 2)


def test_a_program_that_takes_nothing_holds_up_nobody_and_is_ended(programs: Programs) -> None:
    programs.put("mpv", "echo $$ > $HOME/pid; exec sleep 600")
    (programs.folder / "long.wav").write_bytes(wav(tone(440, 3.0)))
    code, shown, errors = programs.play("long.wav")
    assert (code, shown) == (0, "long\n")
    assert "mpv is too slow; sound that it does not take in time is dropped." in errors
    with pytest.raises(ProcessLookupError):
        os.kill(int(programs.read("pid")), 0)


async def test_listen_sounds_when_it_is_told_to_and_ends_the_program(programs: Programs, node: RunningNode) -> None:
    """In a pipe it is silent otherwise."""
    programs.put("mpv", "echo $$ > $HOME/pid; exec cat > $HOME/heard")
    (programs.folder / "long.wav").write_bytes(wav(tone(440, 60.0)))
    player = {"id": "long", "uri": str(programs.folder / "long.wav")}
    assert (await node.request("POST", "/v0/players", player)).status == 201

    def listening(*arguments: str) -> RunningTonearm:
        return RunningTonearm("listen", player["id"], *arguments, folder=programs.folder, variables=programs.variables)

    heard = programs.folder / "heard"
    for arguments, told in (((), "; Ctrl-C"), (("--output", "mpv"), " through mpv; Ctrl-C")):
        running = await asyncio.to_thread(listening, *arguments)
        first = (await asyncio.to_thread(running.stdout.readline)).decode()
        assert first.startswith(f"listening to {player['id']} on {node.url}{told}")
        if arguments:
            await eventually(lambda: heard.exists() and heard.stat().st_size > 0, "the program gets sound")
        else:
            await asyncio.to_thread(running.stdout.readline)
            assert not heard.exists()
        running.send_signal(signal.SIGINT)
        await asyncio.to_thread(running.communicate)
        assert await asyncio.to_thread(running.wait) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(programs.read("pid")), 0)

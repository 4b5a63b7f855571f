"""The commands that speak to a node, as a script and as a person at a terminal runs them."""

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.audio_files import music, wav
from tests.support.command import RunningTonearm, run_tonearm
from tests.support.e2e_players import IMPATIENT
from tests.support.environment import environment
from tests.support.http_client import Answer
from tests.support.running_node import RunningNode, shared_node
from tests.support.stranger import stranger
from tonearm.commands.doctor import Finding, findings_of_node
from tonearm.commands.running import NodeOptions
from tonearm.config.schema import ServerConfig


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """With `song.wav` of two seconds and `clip.wav` of a fifth of one in its folder, and the player `lobby`."""
    folder = tmp_path_factory.mktemp("commands")
    with shared_node(folder, IMPATIENT) as process:
        (folder / "song.wav").write_bytes(wav(music(2.0)))
        (folder / "clip.wav").write_bytes(wav(music(0.2)))
        yield process


def tonearm(node: RunningNode, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_tonearm(*arguments, folder=node.folder, variables={"TONEARM_URL": node.url})


def asked(node: RunningNode, method: str, target: str, body: object = None) -> Answer:
    return asyncio.run(node.request(method, target, body))


def test_tables_have_a_line_for_each_in_so_many_columns(tmp_path: Path) -> None:
    """Titles are shortened first, ids last."""
    with shared_node(tmp_path, IMPATIENT) as own:
        song = "A title of thirty letters, yes.wav"
        (tmp_path / song).write_bytes(wav(music(0.2)))
        for name in ("lobby", "living-room"):
            assert asked(own, "POST", "/v0/players", {"id": name, "uri": song, "paused": True}).status == 201
        asked(own, "POST", "/v0/players/lobby/queue", {"uri": song})
        players = {one["id"]: one for one in map(json.loads, tonearm(own, "players", "--json").stdout.splitlines())}
        assert (set(players), players["lobby"]["queueLength"]) == ({"lobby", "living-room"}, 1)
        (waiting,) = map(json.loads, tonearm(own, "queue", "lobby", "--json").stdout.splitlines())
        assert (waiting["title"], waiting["length"]) == (song.removesuffix(".wav"), 200)
        for columns in (80, 40, 1):
            variables = {"TONEARM_URL": own.url, "COLUMNS": str(columns)}
            for words, count in ((("players",), 3), (("queue", "lobby"), 2)):
                table = run_tonearm(*words, folder=tmp_path, variables=variables)
                lines = table.stdout.splitlines()
                assert (table.returncode, table.stderr, "\x1b" in table.stdout) == (0, "", False)  # no colours
                assert (len(lines), max(map(len, lines)) <= columns) == (count, True), lines
                assert columns < 40 or "A tit" in lines[1]
                assert columns < 80 or lines[-1].startswith("living-room  ") or waiting["id"] in lines[-1]


def test_play_to_the_end(node: RunningNode) -> None:
    played = tonearm(node, "play", "clip.wav", "clip.wav", "--silent")
    assert (played.returncode, played.stdout, played.stderr) == (0, "clip\nclip\n", "")
    events = [json.loads(line) for line in tonearm(node, "play", "clip.wav", "--json", "--silent").stdout.splitlines()]
    assert {"TrackStart", "TrackEnd"} <= {event["op"] for event in events}


def test_play_at_a_terminal(node: RunningNode) -> None:
    ours, process = at_terminal(node, "terminal")
    shown = _until(ours, b"playing")
    os.write(ours, b" ")
    shown += _until(ours, b"paused")
    os.write(ours, b"q")
    assert process.wait(60) == 0
    os.close(ours)
    assert b"long" in shown
    assert b"dBTP" in shown
    assert "terminal" not in [player["id"] for player in asked(node, "GET", "/v0/players").json()]


def test_a_terminal_that_goes_away_ends_play_without_a_word(node: RunningNode) -> None:
    ours, process = at_terminal(node, "gone")
    _until(ours, b"playing")
    os.close(ours)
    assert process.wait(60) == 128 + signal.SIGHUP
    assert (node.folder / "errors").read_bytes() == b""
    assert "gone" not in [player["id"] for player in asked(node, "GET", "/v0/players").json()]


def at_terminal(node: RunningNode, player: str) -> tuple[int, subprocess.Popen[bytes]]:
    """Our end of a terminal, and `tonearm play` there as a shell would start it, also where nohup runs the tests. Its
    stderr is the file `errors`."""
    (node.folder / "long.wav").write_bytes(wav(music(60.0)))
    ours, theirs = pty.openpty()

    def begin() -> None:
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    command = [sys.executable, "-m", "tonearm", "play", "long.wav", "--player", player, "--silent"]
    variables = environment({"TONEARM_URL": node.url, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"})
    streams: Any = {"stdin": theirs, "stdout": theirs, "start_new_session": True, "preexec_fn": begin}
    with (node.folder / "errors").open("wb") as errors:
        process = subprocess.Popen(command, cwd=node.folder, env=variables, stderr=errors, **streams)
    os.close(theirs)
    return ours, process


def _until(terminal: int, word: bytes) -> bytes:
    shown = b""
    while word not in shown:
        assert select.select([terminal], [], [], 60)[0], shown
        shown += os.read(terminal, 65536)
    return shown


def test_events_end_with_the_player(node: RunningNode) -> None:
    assert asked(node, "POST", "/v0/players", {"id": "short", "uri": "song.wav"}).status == 201
    at = {"TONEARM_URL": node.url}
    exact, plain = (
        RunningTonearm("events", "short", *more, folder=node.folder, variables=at) for more in (("--json",), ())
    )
    assert json.loads(exact.stdout.readline())["op"] == "PlayerState"
    assert plain.stdout.readline().startswith(b"PlayerState  song  ")
    asked(node, "PATCH", "/v0/players/short/loop", {"mode": "track"})
    asked(node, "DELETE", "/v0/players/short")
    assert "PlayerDelete" in [json.loads(line).get("op") for line in exact.communicate()[0].splitlines()]
    told = plain.communicate()[0].splitlines()
    assert (exact.wait(), plain.wait(), told[-1], b"LoopModeChange  track" in told) == (0, 0, b"PlayerGone", True)


def test_a_node_alone_has_no_nodes_to_list_or_drain(node: RunningNode) -> None:
    for words in (("nodes",), ("drain",), ("drain", "a", "--undo")):
        refused = tonearm(node, *words)
        assert refused.returncode == 2
        assert "This node is in no cluster" in refused.stderr


def test_doctor(node: RunningNode, tmp_path: Path) -> None:
    healthy = tonearm(node, "doctor", "--uri", "song.wav", "--json")
    findings = {one["subject"]: one for one in map(json.loads, healthy.stdout.splitlines())}
    assert healthy.returncode == 0, findings
    subjects = {"system", "configuration", "decoding", "codecs", "sandbox", "javascript", "voice", "clock"}
    subjects |= {"node", "decoders", "source"}
    assert subjects <= findings.keys()
    assert {findings[one]["verdict"] for one in ("source", "codecs", "javascript")} == {"ok"}
    javascript = r"yt-dlp [\d.]+ uses quickjs-ng [\d.]+ and yt-dlp-ejs [\d.]+ for YouTube"
    assert re.fullmatch(javascript, findings["javascript"]["text"])
    assert "first sound after" in findings["source"]["text"]
    assert b"doctor" not in asked(node, "GET", "/v0/players").body
    resolver = {"TONEARM_RESOLVER__ENABLED": "true", "TONEARM_RESOLVER__JAVASCRIPT": "false"}
    ill = run_tonearm(
        *("doctor", "--uri", "missing.wav", "--discord"),
        folder=tmp_path,
        variables={"TONEARM_URL": node.url, "TONEARM_DECODER__SANDBOX": "required", **resolver},
        lacks=("seccomp=EINVAL", "prctl-seccomp=EINVAL"),
    )
    assert ill.returncode == 1, ill.stdout
    for told in ("✗ source", "→", "✗ sandbox: none (", "resolver.javascript is false"):
        assert told in ill.stdout


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_doctor_asks_the_node_of_the_configuration(tmp_path: Path) -> None:
    """Also on a port of its own; only that one is told the configured password."""
    (tmp_path / "tonearm.toml").write_text('[server]\nport = 0\npassword = "sesame"\n')
    with shared_node(tmp_path, '[server]\npassword = "sesame"\n') as own, stranger(b"nothing\r\n\r\n") as other:
        (tmp_path / "tonearm.toml").write_text(f'[server]\nhost = "0.0.0.0"\nport = {own.port}\npassword = "sesame"\n')
        asked = run_tonearm("doctor", folder=tmp_path)
        assert (asked.returncode, f"✓ node: {own.url} is tonearm" in asked.stdout) == (0, True), asked.stdout
        assert "port:" not in asked.stdout
        configured = ServerConfig(host="0.0.0.0", port=own.port, password=SecretStr("sesame"))
        for url, server, verdict, remedy in (
            (own.url.replace("127.0.0.1", "localhost"), configured, "wrong", ""),
            ("http://127.0.0.1:1", configured, "note", "tonearm serve"),  # and nothing of the configured port
            ("", ServerConfig(port=int(other.rpartition(":")[2])), "wrong", "choose another server.port"),
            ("", ServerConfig(port=0), "note", "give --url"),
            ("", ServerConfig(port=free_port()), "note", "tonearm serve"),
        ):
            finding, *port = asyncio.run(found(url, server))
            assert (finding.verdict, finding.remedy) == (verdict, remedy), finding
            is_free = [f"127.0.0.1:{server.port} is free"]
            assert [one.text for one in port] == (is_free if (url, remedy) == ("", "tonearm serve") else [])
            assert ("wants its password" in finding.text) == ("localhost" in url)


async def found(url: str, server: ServerConfig) -> list[Finding]:
    """What `tonearm doctor` finds of the node at `url`; where that is empty, of the one of the configuration."""
    at = NodeOptions(url or "http://127.0.0.1:2333", "")
    return [finding async for finding in findings_of_node(at, None, server, has_url=bool(url))]


def test_a_shell_can_complete(node: RunningNode) -> None:
    variables = {"_TONEARM_COMPLETE": "bash_complete", "COMP_WORDS": "tonearm pla", "COMP_CWORD": "1"}
    completed = run_tonearm(folder=node.folder, variables=variables, is_fork=False)
    assert set(completed.stdout.split()) == {"plain,play", "plain,players"}
    assert asked(node, "POST", "/v0/players", {"id": "long-name", "idle": True}).status == 201
    variables |= {"TONEARM_URL": node.url, "COMP_WORDS": "tonearm queue lon", "COMP_CWORD": "2"}
    assert run_tonearm(folder=node.folder, variables=variables).stdout.split() == ["plain,long-name"]


def test_a_reader_who_has_enough_ends_a_command_without_a_word(node: RunningNode) -> None:
    command = f"{sys.executable} -m tonearm play clip.wav clip.wav --silent --json | head -1"
    settings: Any = {"cwd": node.folder, "env": environment({"TONEARM_URL": node.url}), "text": True, "check": False}
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, **settings)
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
    unread = RunningTonearm("check-config", folder=node.folder, is_fork=False)
    unread.stdout.close()
    assert unread.stderr.read() == b""
    unread.end()
    with open("/dev/full", "wb") as full:
        players = [sys.executable, "-m", "tonearm", "players"]
        done = subprocess.run(players, stdout=full, stderr=subprocess.PIPE, **settings)
    assert (done.returncode, done.stderr) == (1, "tonearm: stdout cannot be written: No space left on device.\n")


def test_a_terminal_that_knows_ascii_only_gets_ascii(node: RunningNode) -> None:
    (node.folder / "Łódź.wav").write_bytes(wav(music(0.2)))
    variables = {"TONEARM_URL": node.url, "PYTHONIOENCODING": "ascii"}
    shown = run_tonearm("info", "Łódź.wav", folder=node.folder, variables=variables, is_fork=False)
    assert (shown.returncode, shown.stderr, "??d?" in shown.stdout, "0:00" in shown.stdout) == (0, "", True, True)
    assert json.loads(tonearm(node, "info", "song.wav", "--json").stdout)["info"]["length"] == 2000


def test_a_player_of_somebody_else_stays(node: RunningNode) -> None:
    assert asked(node, "POST", "/v0/players", {"id": "theirs", "idle": True}).status == 201
    assert tonearm(node, "play", "clip.wav", "--player", "theirs", "--silent").returncode == 0
    assert asked(node, "DELETE", "/v0/players/theirs").status == 204


@pytest.mark.parametrize(
    ("number", "code", "told"),
    [(signal.SIGINT, 130, b""), (signal.SIGTERM, 143, b""), (None, 1, b"tonearm: Player ended was deleted.")],
)
def test_a_command_that_is_ended_leaves_no_player_and_a_player_that_goes_away_is_told(
    node: RunningNode, number: int | None, code: int, told: bytes
) -> None:
    play = ("play", "song.wav", "song.wav", "--player", "ended", "--silent")
    running = RunningTonearm(*play, folder=node.folder, variables={"TONEARM_URL": node.url})
    assert running.stdout.readline() == b"song\n"
    if number is None:
        assert asked(node, "DELETE", "/v0/players/ended").status == 204
    else:
        running.send_signal(number)
    _, errors = running.communicate()
    assert (running.wait(), errors.strip()) == (code, told)
    assert b'"ended"' not in asked(node, "GET", "/v0/players").body

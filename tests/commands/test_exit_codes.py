"""Every command that speaks to a node, in every way that it can fail before it begins: its exit code, its sentence."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from tests.support.command import run_tonearm
from tests.support.e2e_players import IMPATIENT
from tests.support.running_node import RunningNode, shared_node
from tonearm.cli import tonearm

PASSWORD: Final = "sesame"
NO_PLAYER: Final = "There is no player 'nobody'; `tonearm players` shows all"
COMMANDS: Final = (
    *("players", "queue nobody", "info song.wav", "events nobody", "play song.wav", "listen nobody", "export"),
    *("import players.json", "status nobody", "volume nobody -5", "create somebody"),
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    folder = tmp_path_factory.mktemp("exit-codes")
    (folder / "players.json").write_text(json.dumps({"version": 1, "players": [{"id": "nobody"}]}), encoding="utf-8")
    with shared_node(folder, f'{IMPATIENT}\n[server]\npassword = "{PASSWORD}"\n') as process:
        yield process


def failed(folder: Path, url: str, password: str, *arguments: str) -> tuple[int, str]:
    """The exit code, and what is told in one line on stderr; nothing on stdout."""
    done = run_tonearm(*arguments, folder=folder, variables={"TONEARM_URL": url, "TONEARM_PASSWORD": password})
    assert done.stdout == "", arguments
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stderr.startswith("tonearm: "), done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_where_nothing_listens_or_the_password_is_wrong_it_is_4(node: RunningNode, command: str) -> None:
    for url, words in (
        ("http://127.0.0.1:1", "Nothing listens at http://127.0.0.1:1; start one with `tonearm serve`."),
        (node.url, "refused the password"),
    ):
        returned, told = failed(node.folder, url, "wrong", *command.split())
        assert (returned, told.count("\n")) == (4, 1), told
        assert words in told


def test_what_the_node_refuses_is_1(node: RunningNode) -> None:
    for arguments, words in (
        *((f"{order} nobody", NO_PLAYER) for order in ("queue", "events", "export", "status", "delete", "volume")),
        ("listen nobody --save heard.wav", NO_PLAYER),
        ("add nobody http://127.0.0.1:1/", NO_PLAYER),
        ("move nobody 1 2", NO_PLAYER),
        ("seek nobody +10", NO_PLAYER),
        ("say nobody http://127.0.0.1:1/", NO_PLAYER),
        ("skip", "There are no players; make one with `tonearm create NAME`"),
        ("play a song", "There is no file 'a song' here, and this node cannot search: resolver.enabled is off."),
        ("import players.json", "Player nobody: "),
        ("import players.json else", "There is no player else in players.json."),
        ("import none.json", "none.json cannot be read: No such file or directory."),
        ("import tonearm.toml", "tonearm.toml "),
        ("export -o no/such/folder.json", "no/such/folder.json cannot be written: No such file or directory."),
        ("info missing.wav", "file"),
        ("play http://127.0.0.1:1/ --player no/such?id", "id"),
    ):
        returned, told = failed(node.folder, node.url, PASSWORD, *arguments.split())
        assert (returned, words in told) == (1, True), told
    assert not (node.folder / "heard.wav").exists()


def test_the_password_stands_in_a_file(node: RunningNode, tmp_path: Path) -> None:
    for content, mode, code, told in (
        (f"{PASSWORD}\n", 0o600, 0, ""),
        (f"{PASSWORD}\r\n", 0o644, 0, "warning: other users of this machine can read secret; run chmod 600 secret\n"),
        ("wrong", 0o600, 4, "refused the password"),
        ("", 0o600, 2, "secret is empty; write the password into it"),
        ("two\nlines", 0o600, 2, "a password is one line; this one has a line break"),
        ("\udcff", 0o600, 2, "secret cannot be read: "),
    ):
        (tmp_path / "secret").write_bytes(content.encode(errors="surrogateescape"))
        (tmp_path / "secret").chmod(mode)
        done = run_tonearm("players", "--password-file", "secret", "--url", node.url, folder=tmp_path)
        assert (done.returncode, told in done.stderr, "Traceback" in done.stderr) == (code, True, False), done.stderr
    shown = run_tonearm("players", "--password", PASSWORD, "--url", node.url, folder=tmp_path)
    assert shown.returncode == 0
    assert "other users of this machine can read --password; use --password-file" in shown.stderr
    for variables, code, told in (
        ({"TONEARM_PASSWORD": f"{PASSWORD}\n"}, 2, "this one has a line break"),
        ({"TONEARM_SERVER__PASSWORD": PASSWORD}, 0, ""),
    ):
        done = run_tonearm("players", folder=tmp_path, variables={**variables, "TONEARM_URL": node.url})
        assert (done.returncode, told in done.stderr) == (code, True)


def test_no_command_takes_what_it_does_not_know_nor_goes_without_what_it_needs() -> None:
    unknown = [f"{one} --nonsense" for one in (*COMMANDS, "doctor", "dashboard", "serve") if "-5" not in one]
    lacking = ["info", "play", "import", "add", "create", "move", "seek"]
    wrong = ["players more", "play a --wait -1", "listen a --wait long", "play a --output vlc", "dashboard --port many"]
    for words in (*unknown, *lacking, *wrong, "nonsense"):
        told = CliRunner().invoke(tonearm, words.split())
        assert (told.exit_code, told.stdout) == (2, ""), words
        assert told.stderr.startswith("Usage: tonearm") or words in lacking, words

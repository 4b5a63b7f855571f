"""The command as a user runs it. What `serve` does with a node that runs is in test_cli_serve."""

import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.command import run_tonearm
from tests.support.environment import environment, python_path
from tonearm import VERSION
from tonearm.config.load import load_config
from tonearm.config.schema import Config


def test_the_version_is_told_in_one_line_and_files_in_the_folder_are_no_modules(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise LookupError")
    result = run_tonearm("--version", folder=tmp_path, is_fork=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"tonearm {VERSION}\n", "")


def test_ctrl_c_has_no_traceback_while_modules_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt")
    result = run_tonearm("players", folder=tmp_path, variables=python_path(tmp_path), is_fork=False)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_init_config_writes_every_key_at_its_default_where_it_is_told_and_overwrites_nothing(tmp_path: Path) -> None:
    assert run_tonearm("init-config", "other.toml", folder=tmp_path).returncode == 0
    path = tmp_path / "other.toml"
    written = tomllib.loads(path.read_text(encoding="utf-8"))
    assert {section: {*keys} for section, keys in written.items()} == {
        section: {*values} for section, values in Config().model_dump().items()
    }
    assert load_config(path, {}).config == Config()
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0  # it is where the password goes
    mine = tmp_path / "tonearm.toml"
    mine.write_text("# mine\n", encoding="utf-8")
    for words, told in (
        ((), "tonearm.toml exists and was not changed"),
        (("no/such/folder.toml",), "no/such/folder.toml cannot be written: No such file or directory\n"),
    ):
        result = run_tonearm("init-config", *words, folder=tmp_path)
        assert (result.returncode, told in result.stderr) == (2, True)
    assert mine.read_text(encoding="utf-8") == "# mine\n"


def test_init_config_leaves_nothing_where_there_is_too_little_room(tmp_path: Path) -> None:
    command = ["sh", "-c", 'ulimit -f 1 && exec "$0" -m tonearm init-config', sys.executable]
    variables = environment({"PYTHONDONTWRITEBYTECODE": "1"})
    result = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == "tonearm: tonearm.toml cannot be written: File too large\n"
    assert list(tmp_path.iterdir()) == []


def test_check_config_shows_what_it_comes_to_but_no_password(tmp_path: Path) -> None:
    file = "[server]\npassword = 'sesame'\nport = 1234\n[resolver]\nytdlp_path = 'x'\n[sources]\nfiles = ['no/such']\n"
    (tmp_path / "tonearm.toml").write_text(file, encoding="utf-8")
    result = run_tonearm("check-config", folder=tmp_path, variables={"TONEARM_SOURCES__BLOCKED": '["a\\\\.b"]'})
    assert result.returncode == 0
    assert "sesame" not in result.stdout + result.stderr
    assert "resolver.ytdlp_path" in result.stderr
    assert "tonearm: warning: sources.files: there is no folder no/such\n" in result.stderr
    shown = tomllib.loads(result.stdout)
    assert (shown["server"]["port"], shown["sources"]["blocked"]) == (1234, ["a\\.b"])


@pytest.mark.parametrize("command", ["serve", "check-config"])
def test_a_wrong_file_is_one_line_and_code_2(tmp_path: Path, command: str) -> None:
    (tmp_path / "tonearm.toml").write_text("[server]\npassword = 'sesame '\n", encoding="utf-8")
    result = run_tonearm(command, folder=tmp_path)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("tonearm: tonearm.toml, line 2: server.password: must not begin or end")
    assert "sesame" not in result.stderr


def test_serve_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    for words, line in (
        ("--config none.toml", "none.toml: cannot be read: No such file or directory"),
        ("--port many", 'option --port: server.port: Input should be a valid integer, not "many"'),
        ("--host=", "option --host: server.host: must be an address"),
        ("--host 192.0.2.1 --port 0", "cannot listen on 192.0.2.1:0: cannot assign requested address"),
        ("--host 2001:db8::1 --port 0", "cannot listen on [2001:db8::1]:0"),
    ):
        result = run_tonearm("serve", *words.split(), folder=tmp_path)
        assert (result.returncode, result.stderr.count("\n")) == (3 if "listen" in line else 2, 1)
        assert result.stderr.startswith(f"tonearm: {line}")


def test_check_config_names_all_mistakes_and_warns_as_serve_does(tmp_path: Path) -> None:
    file = tmp_path / "tonearm.toml"
    file.write_text("[server]\nport = '1'\nhost = 'localhost:1'\n", encoding="utf-8")
    result = run_tonearm("check-config", folder=tmp_path)
    assert (result.returncode, result.stderr.count("\n"), result.stdout) == (2, 2, "")
    assert all(line.startswith("tonearm: tonearm.toml, line ") for line in result.stderr.splitlines())
    file.write_text("[server]\nhost = '0.0.0.0'\nmax_connections = 1000000000\n", encoding="utf-8")
    result = run_tonearm("check-config", folder=tmp_path)
    assert result.returncode == 0
    assert "tonearm: warning: other machines can reach this node, and the node has no password" in result.stderr
    assert "not server.max_connections = 1000000000" in result.stderr

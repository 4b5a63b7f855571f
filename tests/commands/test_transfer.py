"""`tonearm export` and `import` where the disk, the node or its limits are in the way."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.audio_files import tone, wav
from tests.support.command import run_tonearm
from tests.support.planted_faults import disk_full
from tests.support.running_node import RunningNode, shared_node
from tonearm.commands.running import NodeOptions
from tonearm.commands.transfer import export_players

PLAYERS = [f"p{number}" for number in range(4)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """With four players."""
    folder = tmp_path_factory.mktemp("transfer")
    (folder / "song.wav").write_bytes(wav(tone(1.0)))
    with shared_node(folder, "") as process:
        for player_id in PLAYERS:
            ask(process, "POST", "/v0/players", {"id": player_id, "uri": "song.wav", "paused": True})
        run_tonearm("export", "-o", "players.json", "--url", process.url, folder=folder)
        yield process


def ask(node: RunningNode, method: str, path: str, body: object = None) -> Any:
    return asyncio.run(node.request(method, path, body)).json()


def imported(node: RunningNode, folder: Path) -> tuple[int, str]:
    done = run_tonearm("import", "players.json", "--url", node.url, folder=folder)
    return done.returncode, done.stderr


def test_an_older_file_stays_until_the_new_one_is_written(
    node: RunningNode, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older, link = tmp_path / "older.json", tmp_path / "link.json"
    older.write_text("of an earlier day")
    link.symlink_to(older)
    for trap in ("older.json.new", "older.json.tmp", "link.json.new"):  # of somebody who may write there, too
        (tmp_path / trap).symlink_to(tmp_path / "somebody's")
    (tmp_path / "somebody's").write_text("untouched")
    before = sorted(tmp_path.iterdir())
    at = NodeOptions(node.url, "")
    with disk_full():
        assert export_players(None, link, at) == 1
    assert "cannot be written: No space left on device" in capsys.readouterr().err
    assert (older.read_text(), sorted(tmp_path.iterdir())) == ("of an earlier day", before)
    assert export_players(None, link, at) == 0
    assert [record["id"] for record in json.loads(older.read_text())["players"]] == PLAYERS
    assert (link.is_symlink(), older.stat().st_mode & 0o777) == (True, 0o600)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "somebody's").read_text() == "untouched"


def test_players_are_written_to_what_is_no_file(node: RunningNode, tmp_path: Path) -> None:
    done = run_tonearm("export", "-o", "/dev/stdout", "--url", node.url, folder=tmp_path)
    assert [record["id"] for record in json.loads(done.stdout)["players"]] == PLAYERS


def test_an_import_waits_as_long_as_the_node_says(node: RunningNode, tmp_path: Path) -> None:
    with shared_node(tmp_path, "[server]\nrequests_per_second = 2\n") as slow:
        assert imported(slow, node.folder) == (0, f"4 of 4 players were imported into {slow.url}.\n")


def test_an_import_into_a_node_that_cannot_keep_the_players_says_so(node: RunningNode, tmp_path: Path) -> None:
    (tmp_path / "state.sqlite").write_bytes(b"damaged" * 1000)
    with shared_node(tmp_path, '[state]\npath = "state.sqlite"\n') as degraded:
        code, told = imported(degraded, node.folder)
        assert (code, f"4 of 4 players were imported into {degraded.url}.\n" in told) == (1, True)
        assert "degraded and may lose them at a restart. The state in" in told

"""Nodes of several trees, measured while they play at the same time."""

import re
from contextlib import chdir
from pathlib import Path

import pytest
from bench import compare

from tests.support.audio_files import tone, wav

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".venv"


@pytest.mark.skipif(not VENV.exists(), reason="this tree has no .venv")
def test_a_tree_beside_itself_gets_a_cost_and_a_ratio_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    song = tmp_path / "song.wav"
    song.write_bytes(wav(tone(440.0, 60.0)))
    few = ("--players", "2", "--rounds", "1", "--seconds", "0.5", "--file", str(song), "--settle", "0.2")
    with chdir(ROOT):  # the process of the listeners is a module of it
        compare.main([str(ROOT), str(ROOT), *few])
    costs = re.findall(r"([0-9.]+) µs \(([0-9.]+)\)", capsys.readouterr().out.splitlines()[-1])
    assert len(costs) == 2
    assert costs[0][1] == "1.000"
    assert all(float(cost) > 0 for cost, _ in costs)

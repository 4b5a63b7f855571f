"""Nodes of several trees, measured while they play at the same time."""

import re
import sys
from pathlib import Path

import pytest
from bench import compare, media, streaming

from tests.support.audio_files import tone, wav

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".venv"


@pytest.mark.skipif(not VENV.exists(), reason="this tree has no .venv")
def test_a_tree_beside_itself_gets_a_cost_and_a_ratio_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    song = tmp_path / "song.wav"
    song.write_bytes(wav(tone(440.0, 60.0)))
    monkeypatch.setattr(media, "make_file", lambda folder, name: song)
    monkeypatch.setattr(streaming, "SETTLE_S", 0.2)
    monkeypatch.chdir(ROOT)  # the process of the listeners is a module of it
    few = ("--players", "2", "--rounds", "1", "--seconds", "0.5", "--format", "wav")
    monkeypatch.setattr(sys, "argv", ["bench.compare", str(ROOT), str(ROOT), *few])
    compare.main()
    costs = re.findall(r"([0-9.]+) µs \(([0-9.]+)\)", capsys.readouterr().out.splitlines()[-1])
    assert len(costs) == 2
    assert costs[0][1] == "1.000"
    assert all(float(cost) > 0 for cost, _ in costs)

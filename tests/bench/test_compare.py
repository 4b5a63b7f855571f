"""Nodes of several trees, measured while they play at the same time."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.missing_programs import needs

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".venv"


@needs("ffmpeg")
@pytest.mark.skipif(not VENV.exists(), reason="this tree has no .venv")
def test_a_tree_beside_itself_gets_a_cost_and_a_ratio_each() -> None:
    few = ("--players", "2", "--rounds", "1", "--seconds", "0.5", "--format", "wav")
    command = (sys.executable, "-m", "bench.compare", str(ROOT), str(ROOT), *few)
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    costs = re.findall(r"([0-9.]+) µs \(([0-9.]+)\)", output.splitlines()[-1])
    assert len(costs) == 2
    assert costs[0][1] == "1.000"
    assert all(float(cost) > 0 for cost, _ in costs)

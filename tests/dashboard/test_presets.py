"""The page's presets, beside those of the Python client."""

import json
import shutil
import subprocess
from importlib import resources

from tests.support.missing_programs import needs
from tonearm.client import PRESETS


@needs("node")
def test_a_preset_that_the_client_has_too_is_the_same() -> None:
    presets = (resources.files("tonearm.dashboard") / "page" / "presets.js").read_text(encoding="utf-8")
    program = f"{presets}\nconsole.log(JSON.stringify(PRESETS));"
    command = [shutil.which("node") or "node", "--input-type=module", "-e", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    of_page = {preset["name"].lower(): preset["filters"] for preset in json.loads(done.stdout)}
    both = of_page.keys() & PRESETS.keys()
    assert "nightcore" in both
    assert {name: of_page[name] for name in both} == {name: PRESETS[name] for name in both}

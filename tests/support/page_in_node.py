"""Runs the JavaScript of the dashboard's page in node."""

import json
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

_PAGE = resources.files("tonearm.dashboard") / "page"
_DOM = Path(__file__).with_name("small_dom.mjs")
# As the map in index.html leads to the files in vendor.
_VENDORED = {"preact": {".": "preact", "./hooks": "hooks"}, "htm": {".": "htm"}}


def run_page(folder: Path, program: str, *arguments: object) -> Any:
    """What `program` prints, as JSON. It stands beside the page's modules and `small_dom.mjs`, and finds `arguments`
    in `given`. `folder` is made for it."""
    for file in _PAGE.iterdir():
        if file.name.endswith(".js"):
            folder.joinpath(file.name).write_bytes(file.read_bytes())
    folder.joinpath("package.json").write_text('{"type": "module"}')
    folder.joinpath("small_dom.mjs").write_bytes(_DOM.read_bytes())
    for name, parts in _VENDORED.items():
        package = folder / "node_modules" / name
        package.mkdir(parents=True)
        for part in parts.values():
            package.joinpath(f"{part}.js").write_bytes(_PAGE.joinpath("vendor", f"{part}.js").read_bytes())
        exports = {path: f"./{part}.js" for path, part in parts.items()}
        package.joinpath("package.json").write_text(json.dumps({"type": "module", "exports": exports}))
    main = folder / "program.js"
    main.write_text(f"const given = JSON.parse(process.argv[2]);\n{program}")
    command = [shutil.which("node") or "node", str(main), json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)

"""The dashboard's files: all of them, none from elsewhere."""

import hashlib
import json
import re
from base64 import b64encode
from importlib import resources

from tonearm.core.filters import EFFECT_KINDS, wire_name
from tonearm.dashboard.page_files import INDEX, ShownNode, page_files

NODE = ShownNode("this node", "..", "/clips/welcome.opus", "..")
VENDOR = resources.files("tonearm.dashboard") / "page" / "vendor"

LICENSES = {"LICENSE.htm": "Apache License", "LICENSE.preact": "MIT License", "LICENSE.uplot": "MIT License"}


def import_map() -> bytes:
    (found,) = re.findall(rb'<script type="importmap">(.*?)</script>', page_files([NODE])[INDEX].body)
    assert isinstance(found, bytes)
    return found


def test_foreign_files_have_their_licenses() -> None:
    assert {entry.name for entry in VENDOR.iterdir() if entry.name.startswith("LICENSE.")} == LICENSES.keys()
    for name, title in LICENSES.items():
        assert title in (VENDOR / name).read_text(encoding="utf-8")


def test_what_a_file_names_is_there() -> None:
    files = page_files([NODE])
    imports = json.loads(import_map())["imports"]
    for path, file in files.items():
        if path.startswith("vendor/"):
            continue
        text = re.sub(r"/\*\* @import .*\*/", "", file.body.decode())  # types only
        found = re.findall(r'(?:from |src=|href=|import\()"(?!#)([^"$]+)"', text)
        for name in found:
            assert imports.get(name, name).removeprefix("./") in files, f"{path} names {name}"
        # The only addresses are names of formats.
        assert set(re.findall(r"https?://[\w.]+", text)) <= {"http://www.w3.org"}, path


def test_the_policy_takes_the_map_of_imports_and_no_other_script_of_the_page() -> None:
    digest = b64encode(hashlib.sha256(import_map()).digest()).decode()
    index = page_files([NODE])[INDEX]
    assert f"script-src 'self' 'sha256-{digest}';" in index.headers()["Content-Security-Policy"]
    assert len(re.findall(rb"<script(?! src=)", index.body)) == 1


def test_vendored_modules_import_what_the_map_names() -> None:
    imports = json.loads(import_map())["imports"]
    for path in imports.values():
        text = VENDOR.joinpath(path.removeprefix("./vendor/")).read_text(encoding="utf-8")
        assert set(re.findall(r'from"([^"]+)"', text)) <= imports.keys(), path


def test_the_page_knows_every_effect_and_its_nodes() -> None:
    files = page_files([NODE])
    shown = {"name": "this node", "path": "..", "clip": "/clips/welcome.opus", "streams": ".."}
    assert json.loads(files["nodes.json"].body) == {"nodes": [{**shown, "login": False, "cluster": False}]}
    effects = json.loads(files["effects.json"].body)
    assert effects["properties"].keys() == {wire_name(name) for name in EFFECT_KINDS}
    assert effects["$defs"]["Echo"]["properties"]["delayMs"]["maximum"] == 2000


def test_every_file_says_what_it_is_and_lets_nothing_foreign_in() -> None:
    for path, file in page_files([NODE]).items():
        headers = file.headers()
        assert headers["Content-Security-Policy"].startswith("default-src 'self';"), path
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert page_files([NODE])[INDEX].content_type.startswith("text/html")

"""LICENSES.md names what is really bundled: packages of the lock files, libraries in their wheels, vendored files."""

import hashlib
import re
from importlib import metadata

from tests.support.readme import REPOSITORY

TEXT = (REPOSITORY / "LICENSES.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([\w.-]+)` \| (.+) \|$", TEXT, re.MULTILINE))
HASHES = dict(re.findall(r"^\| `vendor/([\w.-]+)` \| .+ \| `([0-9a-f]{64})` \|$", TEXT, re.MULTILINE))
LOCKS = [REPOSITORY / "requirements" / f"{lock}.txt" for lock in ("runtime", "resolver", "cluster", "voice")]
PINNED = "".join(lock.read_text(encoding="utf-8") for lock in LOCKS)
PACKAGES = sorted({*re.findall(r"^([\w.-]+)==", PINNED, re.MULTILINE)})


def test_every_package_of_a_node_has_its_row() -> None:
    libraries = {name for name in ROWS if name.startswith("lib")}
    assert sorted(ROWS.keys() - libraries) == PACKAGES


def test_every_library_in_a_wheel_is_named() -> None:
    for package in PACKAGES:
        files = [str(file) for file in metadata.distribution(package).files or ()]
        bundled = {file.rpartition("/")[2] for file in files if re.search(r"^\w+\.libs/.+\.so", file)}
        for library in bundled:
            name = re.sub(r"(64_)?-+[0-9a-f]{8}.*$", "", library).replace("libscipy_openblas", "OpenBLAS")
            assert name in TEXT, f"{package} brings {library}: name it and its licence in LICENSES.md"


def test_every_clip_is_named() -> None:
    for clip in (REPOSITORY / "src" / "tonearm" / "clips").iterdir():
        assert clip.name in TEXT, clip.name


def test_the_vendored_files_are_those_of_the_list() -> None:
    folder = REPOSITORY / "src" / "tonearm" / "dashboard" / "page" / "vendor"
    files = [file for file in folder.iterdir() if not file.name.startswith("LICENSE.")]
    assert {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files} == HASHES

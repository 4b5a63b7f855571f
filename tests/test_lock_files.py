"""A lock file is worth its hashes only if pip refuses a package that differs from them."""

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.readme import REPOSITORY


def make_wheel(folder: Path) -> Path:
    wheel = folder / "pressed-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pressed.py", "")
        archive.writestr("pressed-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: pressed\nVersion: 1.0\n")
        archive.writestr(
            "pressed-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("pressed-1.0.dist-info/RECORD", "")
    return wheel


def install(wheel: Path, sha256: str) -> subprocess.CompletedProcess[str]:
    folder = wheel.parent
    lock = folder / "lock.txt"
    lock.write_text(f"pressed==1.0 \\\n    --hash=sha256:{sha256}\n")
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "install", "--no-index"]
    command += ["--no-deps", "--find-links", str(folder), "--target", str(folder / "installed"), "-r", str(lock)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_pip_installs_a_package_whose_hash_is_in_the_lock_file(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    done = install(wheel, hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "installed" / "pressed.py").exists()


def test_pip_refuses_a_package_whose_hash_differs(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    expected = hashlib.sha256(wheel.read_bytes()).hexdigest()
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("stranger.py", "")
    done = install(wheel, expected)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (tmp_path / "installed").exists()


def test_npm_has_a_hash_of_every_package_and_no_address() -> None:
    lock = json.loads((REPOSITORY / "tools" / "javascript" / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: about for name, about in lock["packages"].items() if name}
    assert {name for name, about in packages.items() if not about["integrity"].startswith("sha512-")} == set()
    assert {name for name, about in packages.items() if "resolved" in about} == set()


def test_the_page_has_the_libraries_whose_types_are_checked() -> None:
    """LICENSES.md names the versions of the files in `vendor`."""
    licences = (REPOSITORY / "LICENSES.md").read_text(encoding="utf-8").casefold()
    wanted = json.loads((REPOSITORY / "tools" / "javascript" / "package.json").read_text(encoding="utf-8"))
    for name in ("preact", "htm", "uplot"):
        assert f": {name} {wanted['devDependencies'][name]}" in licences, name

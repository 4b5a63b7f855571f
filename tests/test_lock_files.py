"""What the lock file of npm names: each package with its hash, and the libraries of the page."""

import json

from tests.support.readme import REPOSITORY


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

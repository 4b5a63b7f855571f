"""The site of `make docs`: all documents are in it, and it asks no other host for anything; and what they name."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import tonearm.client
from tests.support.edge import all_operations
from tests.support.readme import REPOSITORY, blocks
from tonearm.cli import tonearm as tonearm_command


def test_every_page_has_its_place_in_the_site() -> None:
    placed = re.findall(r": (\S+\.md)$", (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {str(path.relative_to(REPOSITORY / "docs")) for path in (REPOSITORY / "docs").rglob("*.md")}
    assert pages <= set(placed), "put it into `nav` of mkdocs.yml"


def written() -> dict[str, str]:
    """All documents for users, by their names."""
    paths = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").rglob("*.md")]
    return {str(path.relative_to(REPOSITORY)): path.read_text(encoding="utf-8") for path in paths}


def test_the_commands_that_documents_name_are_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for name, text in written().items():
        unfenced = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        spans = (span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", unfenced))
        in_code = "\n".join([*spans, *blocks("", text), *blocks("sh", text)])
        assert set(re.findall(r"^make ([a-z-]+)", in_code, re.MULTILINE)) <= targets, name
        for line in re.findall(r"^(?:\S+/)?tonearm ([a-z][^\n]*)", in_code, re.MULTILINE):
            command, *arguments = shlex.split(line, comments=True)
            assert command in tonearm_command.commands, f"{name}: tonearm {line}"
            given = {argument.partition("=")[0] for argument in arguments if argument.startswith("-")}
            options = {"--help", *(option for one in tonearm_command.commands[command].params for option in one.opts)}
            assert given <= options, f"{name}: tonearm {line}"


@pytest.mark.timeout(600)  # a quarter of a minute of work, of which a busy machine makes minutes
def test_the_site_is_made_without_network(tmp_path: Path) -> None:
    mkdocs = ["-W", "ignore", "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir"]
    command = [sys.executable, *mkdocs, str(tmp_path)]
    made = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    assert "ERROR" not in made.stderr
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|img|link)[^>]+(?:src|href)="((?:https?:)?//[^"]+)', page.read_text(encoding="utf-8")
        )
        assert [url for url in loaded if "example" not in url] == [], page.name
    reference = (tmp_path / "reference" / "interface.html").read_text(encoding="utf-8")
    assert all(f"<code>{operation.path}</code>" in reference for operation in all_operations())
    reference = (tmp_path / "reference" / "client.html").read_text(encoding="utf-8")
    assert all(f'id="tonearm.client.{name}"' in reference for name in tonearm.client.__all__)
    for example in (REPOSITORY / "examples").glob("*.*"):
        assert example.suffix == ".md" or (tmp_path / "examples" / example.name).read_bytes() == example.read_bytes()

"""The site of `make docs`: all documents are in it, and it asks no other host for anything; and what they name."""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

import tonearm.client
from tests.support.edge import all_operations
from tests.support.readme import REPOSITORY, blocks
from tonearm.cli import tonearm as tonearm_command
from tonearm.config.schema import SECTIONS

# Pages that are not in docs/: files elsewhere in the repository, and what the site's hook makes.
ELSEWHERE = ["ARCHITECTURE.md", "bench/README.md", "examples/README.md", "reference/interface.md"]
NOT_LED_TO = {"index.md", "design/processes.md", "design/choices.md", "reference/client.md"}
PAGES = sorted(str(path.relative_to(REPOSITORY / "docs")) for path in (REPOSITORY / "docs").rglob("*.md"))


def test_every_document_has_its_place() -> None:
    text = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    placed = re.findall(r": (\S+\.md)$", text, re.MULTILINE)
    assert sorted(placed) == sorted([*PAGES, *ELSEWHERE]), (
        "put it into `nav` of mkdocs.yml, and a line into README.md and docs/index.md"
    )
    assert yaml.safe_load(text)["site_dir"] == "build/docs"
    for start in (REPOSITORY / "README.md", REPOSITORY / "docs" / "index.md"):
        linked = start.read_text(encoding="utf-8")
        missing = [page for page in PAGES if page not in linked and page not in NOT_LED_TO]
        assert not missing, f"{start.name} does not lead to them"


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


SOURCES = {path.relative_to(REPOSITORY / "src" / "tonearm"): path for path in (REPOSITORY / "src").rglob("*.py")}
NAMES_OF_OTHERS = {"web.Server", "run_delay", "no_new_privs", "SO_SNDBUF", "RWF_NOWAIT", "Application"}
EXPLAINED = ["ARCHITECTURE.md", *(f"docs/design/{page}.md" for page in ("frames", "processes", "choices"))]


@cache
def words_of_the_code() -> set[str]:
    return set(re.findall(r"\w+", "\n".join(path.read_text(encoding="utf-8") for path in SOURCES.values())))


@cache
def is_a_module(*parts: str) -> bool:
    """Whether there is a module or a package whose path ends with `parts`."""
    return any(path.with_suffix("").parts[-len(parts) :] == parts for path in SOURCES) or any(
        folder.parts[-len(parts) :] == parts for path in SOURCES for folder in path.parents
    )


@pytest.mark.parametrize("document", EXPLAINED)
def test_modules_and_classes_that_the_design_names_are_there(document: str) -> None:
    text = (REPOSITORY / document).read_text(encoding="utf-8")
    spans = set(re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)))
    words = words_of_the_code()
    for span in spans - NAMES_OF_OTHERS:
        if re.fullmatch(r"[a-z_/]+\.py", span):
            assert (REPOSITORY / span).exists() or is_a_module(*span.removesuffix(".py").split("/")), span
        elif re.fullmatch(r"[a-z_]+(\.[A-Za-z_]+)+", span):
            *room, name = span.split(".")
            assert is_a_module(*room, name) or (name in words and is_a_module(*room)) or room[0] in SECTIONS, span
        elif re.fullmatch(r"[A-Z][A-Za-z]+(\.[a-z_]+)?|[a-z]+(_[a-z]+)+|[A-Z]+(_[A-Z]+)+", span):
            assert set(span.split(".")) <= words or is_a_module(span), span

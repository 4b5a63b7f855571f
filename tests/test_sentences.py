"""What `make check` counts as a long sentence of a document."""

from pathlib import Path

import pytest
from tools.count_sentences import long_sentences, main, sentences

LONG = " ".join(["word"] * 31) + "."


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("One. Two at 1.5 MB? *Three.*\n", ["One", "Two at 1.5 MB", "*Three"]),
        ("A line\nand its rest.\n\nAnother paragraph.\n", ["A line and its rest", "Another paragraph"]),
        ("- An item\n  in two lines\n- A second.\n1. A third.\n", ["An item in two lines", "A second", "A third"]),
        ("See [the tour. And on](docs/tour.md).\n", ["See the tour", "And on"]),
        ("`a. B c` is one word.\n", ["Code is one word"]),
        ("# A heading\n\n| a | table |\n|---|---|\n\n```\ncode. More code.\n```\n<!-- a\nremark -->\n", []),
    ],
)
def test_a_document_is_taken_apart_into_sentences(markdown: str, expected: list[str]) -> None:
    assert [sentence.rstrip(".?!*") for sentence in sentences(markdown)] == expected


def write(folder: Path, text: str, allowed: int) -> None:
    (folder / "docs" / "design").mkdir(parents=True, exist_ok=True)
    (folder / "docs" / "design" / "page.md").write_text(text, encoding="utf-8")
    (folder / "pyproject.toml").write_text(f"[tool.documents]\nlong_sentences = {allowed}\n", encoding="utf-8")


def test_a_sentence_more_than_allowed_fails_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, f"{LONG}\n\n{LONG.removeprefix('word ')}\n", 1)
    assert long_sentences(tmp_path) == [("docs/design/page.md", LONG)]
    assert main([], tmp_path) == 0
    write(tmp_path, f"{LONG}\n\n{LONG}\n", 1)
    assert main(["--list"], tmp_path) == 1
    printed = capsys.readouterr()
    assert f"docs/design/page.md: {LONG}" in printed.out
    assert "Shorten the new ones" in printed.err

"""Counts the sentences of the documents that have more than 30 words, and fails when there are more than before.

`python tools/count_sentences.py [--list]`; with `--list` each of them, with its file. `make check` runs it. The number
that may be there is `long_sentences` in the section `[tool.documents]` of pyproject.toml: whoever shortens sentences
lowers it. Tables, code and headings are not counted, for a row of a table is no sentence.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MOST_WORDS: Final = 30
DOCUMENTS: Final = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**/*.md")

_FENCE: Final = re.compile(r"^\s*```.*?^\s*```\s*$", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_NO_PROSE: Final = re.compile(r"\s*(\||#|:::|</?[a-z])")
_ITEM: Final = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
_CODE: Final = re.compile(r"`[^`]*`")
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
# A full stop inside a name, a number or an abbreviation has no blank and no capital behind it.
_END: Final = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_]*[A-Z0-9])|(?<=:)\s*$")
_WORD: Final = re.compile(r"\w[\w'./-]*")


def sentences(markdown: str) -> Iterator[str]:
    """The sentences of a document, without its tables, code and headings. Code in a line counts as one word."""
    for paragraph in _paragraphs(markdown):
        plain = _LINK.sub(r"\1", _CODE.sub("Code", paragraph))
        yield from (sentence.strip() for sentence in _END.split(plain) if sentence.strip())


def _paragraphs(markdown: str) -> Iterator[str]:
    lines: list[str] = []
    for line in _COMMENT.sub("", _FENCE.sub("\n", markdown)).splitlines():
        item = _ITEM.match(line)
        if lines and (item or not line.strip() or _NO_PROSE.match(line)):
            yield " ".join(lines)
            lines = []
        if line.strip() and not _NO_PROSE.match(line):
            lines.append((line[item.end() :] if item else line).strip())
    if lines:
        yield " ".join(lines)


def long_sentences(folder: Path) -> list[tuple[str, str]]:
    """Each sentence of more than `MOST_WORDS` words in the documents of `folder`, with the name of its file."""
    return [
        (str(path.relative_to(folder)), sentence)
        for pattern in DOCUMENTS
        for path in sorted(folder.glob(pattern))
        for sentence in sentences(path.read_text(encoding="utf-8"))
        if len(_WORD.findall(sentence)) > MOST_WORDS
    ]


def main(arguments: list[str], folder: Path) -> int:
    """Prints how many there are. Returns 1 when there are more than pyproject.toml allows."""
    found = long_sentences(folder)
    settings = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    allowed: int = settings["tool"]["documents"]["long_sentences"]
    if "--list" in arguments:
        for name, sentence in found:
            print(f"{name}: {sentence}")
    print(f"sentences of more than {MOST_WORDS} words in documents: {len(found)}, of {allowed} allowed")
    if len(found) > allowed:
        print("Shorten the new ones; `python tools/count_sentences.py --list` shows all.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path.cwd()))

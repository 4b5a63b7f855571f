"""Documents as tests read them: the pieces that their readers paste."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
INTERFACE = {
    page.stem: page.read_text(encoding="utf-8")
    for page in [REPOSITORY / "docs" / "interface.md", *(REPOSITORY / "docs" / "interface").glob("*.md")]
}

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def blocks(language: str, document: str = README) -> list[str]:
    """The fenced blocks of one language in their order; those without one are named ''."""
    return [block for name, block in _FENCED.findall(document) if name == language]


def relative_links(document: Path) -> list[str]:
    """Where a document links to in the repository, with anchors."""
    text = _FENCED.sub("", document.read_text(encoding="utf-8"))
    return [link for link in _LINK.findall(text) if "://" not in link]


def anchors(document: Path) -> set[str]:
    """What can stand behind the `#` of a link to `document`: its headings as GitHub writes them."""
    text = _FENCED.sub("", document.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(text)}

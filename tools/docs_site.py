"""Adds pages to the documents' site that are not in docs/: the reference of all paths, models and events, made from the
node's own description, and repository files to which documents link, such as examples.

A hook of mkdocs: https://www.mkdocs.org/user-guide/configuration/#hooks.
"""

import posixpath
import re
from pathlib import Path
from typing import Any, Final, cast

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tonearm import VERSION
from tonearm.description import cluster
from tonearm.description.asyncapi import asyncapi_document
from tonearm.description.openapi import openapi_document
from tonearm.description.operation import Operation
from tonearm.description.page import docs_sections
from tonearm.node.node import Node
from tonearm.server.app import EdgeSettings, build_app
from tonearm.server.routes_node import status_of_code

REFERENCE: Final = "reference/interface.md"
_STYLE: Final = (
    "<style>details pre, .rst-content details td { white-space: pre-wrap; overflow-wrap: anywhere; }</style>\n"
)
ROOT: Final = Path(__file__).parent.parent
_RELATIVE_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)[^)#\s]+")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the reference, and the files that documents lead to."""
    pages = [ROOT / "docs" / file.src_uri for file in files.documentation_pages()]
    files.append(File.generated(config, REFERENCE, content="# Every path and event\n"))
    while pages:
        page = pages.pop()
        for link in _RELATIVE_LINK.findall(page.read_text(encoding="utf-8")):
            target = page.parent / link
            if target.is_file() and files.get_file_from_path(_place(target)) is None:
                files.append(File(_place(target), str(ROOT), config.site_dir, use_directory_urls=False))
                pages += [target] if target.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links as they are in the repository become those of the site, where docs/ is on top."""
    if page.file.abs_src_path is None:
        return markdown
    folder = Path(page.file.abs_src_path).parent
    start = posixpath.dirname(page.file.src_uri) or "."

    def in_the_site(link: re.Match[str]) -> str:
        target = folder / link[0]
        return posixpath.relpath(_place(target), start) if target.is_file() else link[0]

    return _RELATIVE_LINK.sub(in_the_site, markdown)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Fills the reference; all of it is open, so that it can be searched and linked to without a script."""
    if page.file.src_uri != REFERENCE:
        return html
    operations = build_app(cast(Node, None), EdgeSettings("any", has_login=True)).operations  # none is asked
    operations += tuple(one for one in vars(cluster).values() if isinstance(one, Operation))
    openapi = openapi_document(VERSION, operations, status_of_code())
    sections = docs_sections(openapi, asyncapi_document(VERSION))
    return html + _STYLE + sections.replace("<details", "<details open")


def _place(file: Path) -> str:
    """Where a file of the repository is in the site."""
    return file.resolve().relative_to(ROOT).as_posix().removeprefix("docs/")

"""Lines of code of `src` and `tests`, which are those beside blanks, comments and docstrings. Printed by `make check`.

`python tools/count_lines.py [--parts]`; with `--parts` a line for each package of `src/tonearm`.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import Final

_NO_CODE: Final = frozenset(
    {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
        tokenize.ENCODING,
    }
)  # fmt: skip
_WITH_DOCSTRING: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def lines_of_code(source: str) -> int:
    """How many lines of a Python file hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def main(arguments: list[str]) -> None:
    parts: Counter[str] = Counter()
    for folder in ("src", "tests"):
        for path in sorted(Path(folder).rglob("*.py")):
            count = lines_of_code(path.read_text(encoding="utf-8"))
            parts[folder] += count
            if folder == "src":
                parts["/".join(path.parts[1:3])] += count
    if "--parts" in arguments:
        for name, count in parts.most_common():
            print(f"{count:7,}  {name}")
    else:
        print(f"lines of code: {parts['src']:,} of source, {parts['tests']:,} of tests")


if __name__ == "__main__":
    main(sys.argv[1:])

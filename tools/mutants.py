"""Small faults put into `src`, one at a time, and how many of them the tests find.

    python -m tools.mutants --of 'player/*.py' --count 40 tests/player [--less FILE_OR_TEST ...]

A mutant is one changed operator, number, condition or statement; the same `--seed` draws the same of the same source.
A process of tests compiles the changed module in the place of the file, so nothing on the disk changes. Processes that
tests start for themselves have the file. Tests that `--less` names are run only where all others find nothing: what
these alone find would be lost with them.
"""

import argparse
import ast
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Final, NamedTuple

_SOURCE: Final = Path(__file__).parents[1] / "src" / "tonearm"
_VARIABLE: Final = "TONEARM_MUTANT"
_LIMIT_S: Final = 900
_NO_TESTS: Final = 5
_OTHER: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip


class Mutant(NamedTuple):
    path: Path
    line: int
    what: str
    source: str  # of the changed module

    def __str__(self) -> str:
        return f"{self.path.relative_to(_SOURCE)}:{self.line}  {' '.join(self.what.split())[:110]}"


def drawn(paths: Sequence[Path], count: int, seed: int) -> list[Mutant]:
    """So many different ones, each node of a syntax tree as likely as any other."""
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    places = [(path, number) for path, text in texts.items() for number, _ in enumerate(ast.walk(ast.parse(text)))]
    random.Random(seed).shuffle(places)
    mutants: list[Mutant] = []
    for path, number in places:
        tree = ast.parse(texts[path])
        node = list(ast.walk(tree))[number]
        if (what := _change(node)) is not None:
            mutants.append(Mutant(path, getattr(node, "lineno", 0), what, ast.unparse(tree)))
        if len(mutants) == count:
            break
    return mutants


def _change(node: ast.AST) -> str | None:
    """Changes it, and says how; nothing where it is of no such kind."""
    before = ast.unparse(node)
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _OTHER:
            node.ops = [_OTHER[type(operator)]()]  # type: ignore[list-item]
        case ast.BinOp(op=operator) if type(operator) in _OTHER:
            node.op = _OTHER[type(operator)]()  # type: ignore[assignment]
        case ast.BoolOp(op=operator):
            node.op = _OTHER[type(operator)]()  # type: ignore[assignment]
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            node.test = ast.UnaryOp(ast.Not(), test)
            return f"{ast.unparse(test)} -> {ast.unparse(node.test)}"
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant(value=int() | float()):
            node.value += 1  # type: ignore[operator]
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            node.__class__ = ast.Pass  # type: ignore[assignment]
        case ast.Assign(targets=[ast.Attribute()]):
            node.__class__ = ast.Pass  # type: ignore[assignment]
        case _:
            return None
    return f"{before} -> {ast.unparse(node)}"


def _is_found(mutant: Mutant, tests: Sequence[str], without: Sequence[str]) -> bool:
    left_out = [part for test in without for part in (("--deselect", test) if "::" in test else ("--ignore", test))]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-qx",
        "-p",
        "tools.mutants",
        "-p",
        "no:cacheprovider",
        *tests,
        *left_out,
    ]
    variables = {**os.environ, _VARIABLE: json.dumps([str(mutant.path), mutant.source])}
    try:
        code = subprocess.run(command, env=variables, capture_output=True, timeout=_LIMIT_S).returncode  # noqa: S603
    except subprocess.TimeoutExpired:
        return True
    if code == _NO_TESTS:
        raise SystemExit("No tests were run.")
    return code != 0


def _place_a_mutant(path: str, source: str) -> None:
    """The module at `path` is the changed one in this process, which is a run of tests."""
    compiled = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        return compile(source, path, "exec") if self.path == path else compiled(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", action="append", required=True, help="a pattern of files below src/tonearm")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--less", nargs="*", default=[], help="files of tests and tests")
    parser.add_argument("tests", nargs="+")
    asked = parser.parse_args()
    mutants = drawn(sorted({path for of in asked.of for path in _SOURCE.glob(of)}), asked.count, asked.seed)

    def judge(mutant: Mutant) -> str:
        if _is_found(mutant, asked.tests, asked.less):
            return "found"
        if asked.less and _is_found(mutant, asked.less, ()):
            return "found by those that go"
        return "alive"

    verdicts: Counter[str] = Counter()
    with ThreadPoolExecutor(asked.jobs) as threads:
        for mutant, verdict in zip(mutants, threads.map(judge, mutants), strict=True):
            verdicts[verdict] += 1
            if verdict != "found":
                print(f"{verdict}: {mutant}", flush=True)
    print(f"of {len(mutants)} mutants", dict(verdicts))


if _VARIABLE in os.environ:
    _place_a_mutant(*json.loads(os.environ[_VARIABLE]))
elif __name__ == "__main__":
    main()

"""Tests that need a program which need not be installed; where it is not, the last lines of a run say so.

A plugin of pytest, which `conftest.py` registers.
"""

import shutil
from collections import Counter
from typing import Final, NoReturn

import pytest

_REASON: Final = "needs the program "


def needs(program: str) -> pytest.MarkDecorator:
    """Skips a test where `program` is not found."""
    return pytest.mark.skipif(shutil.which(program) is None, reason=_REASON + program)


def skip_for_want_of(program: str) -> NoReturn:
    pytest.skip(_REASON + program)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = (str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", []))
    missing = Counter(reason.partition(_REASON)[2] for reason in reasons if _REASON in reason)
    if missing:
        tests = ", ".join(f"{program} {count}" for program, count in sorted(missing.items()))
        terminalreporter.write_line(f"tests not run for want of a program: {tests}", yellow=True)

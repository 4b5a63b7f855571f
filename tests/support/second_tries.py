"""Tests that judge by wall time, which bear the mark `timing`: a failed one is tried once more, and that is told.

A plugin of pytest, which `conftest.py` registers. No other test is tried again.
"""

from collections.abc import Iterable
from typing import Final

import pytest
from _pytest.runner import runtestprotocol

MARK: Final = "timing"
MOST_TESTS: Final = 10
TRIED_AGAIN: Final = "tried again"  # the outcome of a first try that failed


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}: it judges by wall time, so it may be tried a second time")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    count = sum(item.get_closest_marker(MARK) is not None for item in items)
    if count > MOST_TESTS:
        raise pytest.UsageError(f"{count} tests bear the mark {MARK}, and at most {MOST_TESTS} may: drive time by hand")


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if item.get_closest_marker(MARK) is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed for report in reports):
        _log(item, (_as_first_try(report) for report in reports if report.failed))
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    _log(item, reports)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _log(item: pytest.Item, reports: Iterable[pytest.TestReport]) -> None:
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)


def _as_first_try(report: pytest.TestReport) -> pytest.TestReport:
    report.outcome = TRIED_AGAIN  # type: ignore[assignment]
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    if report.outcome == TRIED_AGAIN:  # type: ignore[comparison-overlap]
        return TRIED_AGAIN, "R", ("TRIED AGAIN", {"yellow": True})
    return None


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Shows what was wrong with first tries, and says how many there were of how many tests."""
    stats = terminalreporter.stats
    first_tries = stats.get(TRIED_AGAIN, [])
    for report in first_tries:
        terminalreporter.section(f"first try of {report.nodeid}", yellow=True)
        terminalreporter.write_line(report.longreprtext)
    judged = {
        report.nodeid
        for outcome in ("passed", "failed", "error")
        for report in stats.get(outcome, [])
        if isinstance(report, pytest.TestReport) and MARK in report.keywords
    }
    if judged:
        tried_again = len({report.nodeid for report in first_tries})
        terminalreporter.write_line(f"tests that judge by wall time: {len(judged)}, tried a second time: {tried_again}")

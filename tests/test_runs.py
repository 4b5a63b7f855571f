"""What a run of these tests tells beside what failed."""

import subprocess
import sys
from pathlib import Path

import pytest
from tools.busy_runs import read_run

from tests.support.environment import environment
from tests.support.readme import REPOSITORY

FLAWED = """
import pytest
from pathlib import Path

def fails_at_first(name):
    first = not Path(name).exists()
    Path(name).touch()
    assert not first

@pytest.mark.timing
def test_late_once(): fails_at_first("late once")

@pytest.mark.timing
def test_late_twice(): assert False

@pytest.mark.timing
def test_in_time(): pass

def test_wrong_once(): fails_at_first("wrong once")
"""


def run(pytester: pytest.Pytester, *plugins: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-pno:asyncio", *(f"-ptests.support.{plugin}" for plugin in plugins))


def test_only_what_judges_by_wall_time_is_tried_a_second_time_and_that_is_told(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FLAWED)
    result = run(pytester, "second_tries")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*first try of *::test_late_once*",
            "*assert not first*",
            "tests that judge by wall time: 3, tried a second time: 2",
            "FAILED *::test_late_twice*",
            "FAILED *::test_wrong_once*",
        ]
    )


def test_few_may_judge_by_wall_time(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import pytest\n@pytest.mark.timing\n@pytest.mark.parametrize('n', range(21))\ndef test_it(n): pass"
    )
    result = run(pytester, "second_tries")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*21 tests bear the mark timing, and at most 20 may*"])


def test_what_was_not_run_for_want_of_a_program_is_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "from tests.support.missing_programs import needs\n"
        "@needs('no-such-program')\ndef test_it(): pass\n"
        "@needs('sh')\ndef test_other(): pass\n"
    )
    result = run(pytester, "missing_programs")
    result.stdout.fnmatch_lines(["tests not run for want of a program: no-such-program 1"])
    result.assert_outcomes(passed=1, skipped=1)


def test_a_busy_run_is_a_line_of_a_table(tmp_path: Path) -> None:
    flawed = tmp_path / "test_flawed.py"
    flawed.write_text(FLAWED.replace("@pytest.mark.timing", ""))
    tests = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-ra", "-c", "/dev/null", str(flawed)]
    command = [sys.executable, "-m", "tools.busy_runs", "--busy", "1", *tests]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment({"PYTHONPATH": str(REPOSITORY)}),
        capture_output=True,
        text=True,
        check=False,
    )
    head, row = done.stdout.splitlines()
    assert (done.returncode, head.split()[:4]) == (1, ["run", "passed", "failed", "skipped"])
    assert row.split()[:4] == ["1", "1", "3", "0"]
    assert row.endswith("test_flawed.py::test_wrong_once")
    assert "3 failed, 1 passed" in (tmp_path / "build" / "test-busy" / "1.log").read_text()
    unread = read_run("make: *** No rule to make target 'test'.  Stop.\n")
    assert (unread.passed, unread.failed) == (0, 0)

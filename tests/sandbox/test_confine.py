"""What becomes of a process that shuts itself in, on kernels that can do more or less of it."""

import itertools
import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.sources.resolver.test_page_resolver import resolving
from tests.support import attack
from tests.support.command import RunningTonearm, run_tonearm
from tests.support.environment import environment
from tests.support.eventually import PATIENCE_S
from tests.support.hostile import got_through
from tests.support.lesser_kernel import without
from tests.support.media_server import MediaServer
from tests.support.resolver_forks import FAKE_SITES
from tests.support.resolving import fake_sites
from tonearm.sandbox.report import SandboxMode, SandboxReport, SandboxRequiredError, SandboxSupervision

PROGRAM = """
import json, os, signal, sys, threading, time
from dataclasses import asdict, replace
from tonearm.sandbox import confine as confining
from tonearm.sandbox.seccomp import CallRules
from tonearm.sandbox.confine import try_confinement
from tonearm.sandbox.report import SandboxMode
from tonearm.sandbox.rules import decoder_rules

def opens_files():
    try:
        os.close(os.open("/etc/passwd", os.O_RDONLY))
    except PermissionError:
        return False
    return True

rules, exercise = decoder_rules, lambda: None
{before}
report = try_confinement(SandboxMode.AUTO, rules, exercise).enter()
threading.Thread(target=lambda: print(json.dumps([asdict(report), opens_files()]), flush=True)).start()
"""

NO_SECCOMP = ("seccomp=EINVAL", "prctl-seccomp=EINVAL")


def confined(before: str = "", lacks: tuple[str, ...] = ()) -> tuple[SandboxReport, bool]:
    """What a process reports that was confined after `before`, and whether it opens files afterwards."""
    program = PROGRAM.format(before=textwrap.dedent(before))
    command = [*(without(*lacks) if lacks else ()), sys.executable, "-c", program]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 0, ended.stderr
    report, opens_files = json.loads(ended.stdout)
    return SandboxReport(**report), opens_files


def test_all_of_it_where_the_kernel_has_all_of_it() -> None:
    report, opens_files = confined()
    assert report.seccomp
    assert not opens_files
    if not report.landlock_abi:
        assert report.problem.startswith("landlock: ")


@pytest.mark.parametrize(
    ("lacks", "problem"),
    [
        (("landlock=ENOSYS",), "landlock: ENOSYS"),
        (("landlock=EPERM",), "landlock: EPERM"),  # containers of before Landlock was in their lists
        # systemd's SystemCallFilter=@system-service, with SystemCallErrorNumber=EPERM and without.
        (("landlock=EPERM", "seccomp=EPERM"), "landlock: EPERM"),
        (("landlock=SIGSYS", "seccomp=SIGSYS"), "landlock: the trial of the filter was ended by SIGSYS"),
        (("landlock=SIGSYS",), "landlock: the trial of the filter was ended by SIGSYS"),
    ],
)
def test_seccomp_alone_where_there_is_no_landlock(lacks: tuple[str, ...], problem: str) -> None:
    assert confined(lacks=lacks) == (SandboxReport(seccomp=True, problem=problem), False)


def test_landlock_is_had_where_only_one_way_to_seccomp_kills() -> None:
    report, opens_files = confined(lacks=("seccomp=SIGSYS",))
    assert report.seccomp
    assert not opens_files
    if not report.landlock_abi:
        assert report.problem.startswith("landlock: E")


def test_nobody_is_killed_for_asking() -> None:
    report, opens_files = confined(lacks=("landlock=SIGSYS", "seccomp=SIGSYS", "prctl-seccomp=SIGSYS"))
    assert report == SandboxReport(problem="the trial of the filter was ended by SIGSYS")
    assert opens_files


@pytest.mark.parametrize("error", ["EINVAL", "EPERM", "ENOSYS"])
def test_none_and_a_reason_where_there_is_no_seccomp(error: str) -> None:
    report, opens_files = confined(lacks=(f"seccomp={error}", f"prctl-seccomp={error}"))
    assert report == SandboxReport(problem=f"seccomp: {error}")
    assert opens_files


@pytest.mark.parametrize(
    ("before", "problem"),
    [
        ("def exercise(): raise ValueError('the clip is broken')", "under the filter: ValueError: the clip is broken"),
        ("def exercise(): open('/etc/passwd')", "under the filter: PermissionError: [Errno 1]"),
        ("def exercise(): os._exit(3)", "the trial of the filter was over with status 3"),
        ("def exercise(): signal.raise_signal(signal.SIGKILL)", "the trial of the filter was ended by SIGKILL"),
        ("confining._SANDBOX_TRIAL_LIMIT_S = 0.1\ndef exercise(): time.sleep(600)", "took longer than 0.1 s"),
        # A libc that needs what the list does not know.
        ("def rules(pid): return CallRules({'exit_group': (), 'write': (), 'futex': ()})", "start new thread"),
        ("threading.Thread(target=time.sleep, args=(600,), daemon=True).start()", "2 threads are running"),
    ],
)
def test_a_sandbox_in_which_the_process_could_not_work_is_none(before: str, problem: str) -> None:
    report, opens_files = confined(before)
    assert not report.seccomp
    assert problem in report.problem
    assert opens_files


def test_a_process_starts_where_the_system_allows_no_core_dumps_at_all() -> None:
    command = [*without("cores"), sys.executable, "-m", "tonearm.worker", SandboxMode.AUTO]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 0, ended.stderr
    limited = "from tonearm.sources.resolver.confinement import limit_resources\nlimit_resources(1024)"
    report, _ = confined(limited, lacks=("cores",))
    assert report.seccomp


def test_an_architecture_without_a_table_has_no_sandbox() -> None:
    report, opens_files = confined("import platform\nplatform.machine = lambda: 'riscv64'")
    assert report == SandboxReport(problem="there is no list of system calls for linux on riscv64")
    assert opens_files


class TestReports:
    def test_the_words_for_a_level(self) -> None:
        for report, words in (
            (SandboxReport(True, 7), "seccomp + landlock 7"),
            (SandboxReport(True, problem="landlock: ENOSYS"), "seccomp (landlock: ENOSYS)"),
            (SandboxReport(problem="seccomp: EINVAL"), "none (seccomp: EINVAL)"),
            (SandboxReport(), "off"),
        ):
            assert str(report) == words

    def test_required_wants_seccomp_and_nothing_more(self) -> None:
        supervision = SandboxSupervision("decoders", "decoder.sandbox", SandboxMode.REQUIRED)
        supervision.require(SandboxReport(True, problem="landlock: ENOSYS"))
        with pytest.raises(SandboxRequiredError, match=r'decoder\.sandbox is "required".*seccomp: EINVAL'):
            supervision.require(SandboxReport(problem="seccomp: EINVAL"))
        SandboxSupervision("decoders", "decoder.sandbox", SandboxMode.AUTO).require(SandboxReport(problem="x"))

    def test_a_level_is_told_once_and_again_when_it_changes(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("INFO")
        supervision = SandboxSupervision("decoders", "decoder.sandbox")
        supervision.take_note(SandboxReport(True, 7))
        assert not caplog.records
        supervision.announce()
        supervision.take_note(SandboxReport(True, 7))
        supervision.take_note(SandboxReport(problem="fork: EAGAIN"))
        assert [(record.levelname, record.message) for record in caplog.records] == [
            ("INFO", "decoders: sandbox seccomp + landlock 7"),
            ("WARNING", "decoders: sandbox none (fork: EAGAIN)"),
        ]


class TestNode:
    @pytest.mark.parametrize("section", ["decoder", "resolver"])
    def test_required_ends_the_start_with_the_kernels_reason(self, tmp_path: Path, section: str) -> None:
        enabled = "enabled = true\n" * (section == "resolver")
        (tmp_path / "tonearm.toml").write_text(f'[{section}]\n{enabled}sandbox = "required"\n')
        ended = run_tonearm("serve", "--port", "0", folder=tmp_path, lacks=NO_SECCOMP)
        assert ended.returncode == 3
        assert ended.stderr.startswith(f'tonearm: tonearm.toml: {section}.sandbox is "required", but')
        assert "(seccomp: EINVAL)" in ended.stderr
        assert "Traceback" not in ended.stderr

    @pytest.mark.parametrize(
        ("lacks", "config", "line"),
        [
            (NO_SECCOMP, "", "WARNING decoders: sandbox none (seccomp: EINVAL)"),
            (
                ("landlock=ENOSYS",),
                "[decoder]\nsandbox = 'required'\n",
                "WARNING decoders: sandbox seccomp (landlock: ENOSYS)",
            ),
            ((*NO_SECCOMP, "landlock=ENOSYS"), "[decoder]\nsandbox = 'off'\n", "INFO decoders: sandbox off"),
        ],
    )
    def test_a_node_starts_with_less_and_says_so(
        self, tmp_path: Path, lacks: tuple[str, ...], config: str, line: str
    ) -> None:
        (tmp_path / "tonearm.toml").write_text(config)
        node = RunningTonearm("serve", "--port", "0", folder=tmp_path, lacks=lacks)
        try:
            told = next((text for text in node.stderr if b"decoders: sandbox" in text), b"")
            assert line in told.decode()
        finally:
            node.send_signal(signal.SIGTERM)
            rest = node.communicate()
        assert node.wait() == 0, rest

    def test_a_node_whose_template_may_not_fork_says_so_and_starts(self, tmp_path: Path) -> None:
        node = RunningTonearm("serve", "--port", "0", folder=tmp_path, lacks=("sibling=EPERM",))
        try:
            begin = list(itertools.takewhile(lambda line: b"INFO decoders: sandbox seccomp" not in line, node.stderr))
        finally:
            node.send_signal(signal.SIGTERM)
            rest = node.communicate()
        assert node.wait() == 0, rest
        assert sum(b"a template cannot fork here (EPERM)" in line for line in begin) == 1


class TestResolver:
    async def test_without_landlock_it_reads_files_and_gets_no_further(self) -> None:
        command = (*without("landlock=ENOSYS"), *FAKE_SITES)
        async with MediaServer() as server, resolving(fake_sites(command=command, sandbox=SandboxMode.AUTO)) as it:
            through = got_through((await it.failure(server.url("/fake/attack"))).message)
            assert it.pages.sandboxes == [SandboxReport(seccomp=True, problem="landlock: ENOSYS")]
        assert through == attack.RESOLVERS_MAY_WITHOUT_LANDLOCK | {"a thread"}

    async def test_one_that_lacks_a_required_sandbox_resolves_nothing(self) -> None:
        command = (*without(*NO_SECCOMP), *FAKE_SITES)
        settings = fake_sites(command=command, sandbox=SandboxMode.REQUIRED)
        async with MediaServer() as server, resolving(settings) as it:
            with pytest.raises(SandboxRequiredError):
                await it.pages.start()
            assert "resolver.sandbox" in (await it.failure(server.url("/fake/told"))).message
            assert not server.requests

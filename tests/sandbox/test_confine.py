"""What becomes of a process that shuts itself in, on kernels that can do more or less of it."""

import json
import re
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
from tonearm.sandbox.report import SandboxMode, SandboxReport, SandboxRequiredError

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


@pytest.mark.parametrize(
    ("lacks", "before", "seccomp", "problem"),
    [
        ((), "", True, "(landlock: .*)?"),
        (("landlock=ENOSYS",), "", True, "landlock: ENOSYS"),
        (("landlock=EPERM",), "", True, "landlock: EPERM"),  # containers of before Landlock was in their lists
        # systemd's SystemCallFilter=@system-service, with SystemCallErrorNumber=EPERM and without.
        (("landlock=EPERM", "seccomp=EPERM"), "", True, "landlock: EPERM"),
        (("landlock=SIGSYS", "seccomp=SIGSYS"), "", True, "landlock: the trial of the filter was ended by SIGSYS"),
        (("landlock=SIGSYS",), "", True, "landlock: the trial of the filter was ended by SIGSYS"),
        (("seccomp=SIGSYS",), "", True, "(landlock: E.*)?"),
        # Nobody is killed for asking.
        (("landlock=SIGSYS", "seccomp=SIGSYS", "prctl-seccomp=SIGSYS"), "", False, ".* was ended by SIGSYS"),
        *(((f"seccomp={e}", f"prctl-seccomp={e}"), "", False, f"seccomp: {e}") for e in ("EINVAL", "EPERM", "ENOSYS")),
        ((), "import platform\nplatform.machine = lambda: 'riscv64'", False, ".*system calls for linux on riscv64"),
        # A sandbox in which the process could not work is none.
        ((), "def exercise(): raise ValueError('a broken clip')", False, "under the filter: ValueError: a broken clip"),
        ((), "def exercise(): open('/etc/passwd')", False, r"under the filter: PermissionError: \[Errno 1\].*"),
        ((), "def exercise(): os._exit(3)", False, "the trial of the filter was over with status 3"),
        ((), "def exercise(): signal.raise_signal(signal.SIGKILL)", False, "the trial of .* was ended by SIGKILL"),
        ((), "confining._SANDBOX_TRIAL_LIMIT_S = 0.1\ndef exercise(): time.sleep(600)", False, ".*longer than 0.1 s"),
        # A libc that needs what the list does not know.
        ((), "def rules(pid): return CallRules({'exit_group': (), 'write': (), 'futex': ()})", False, ".*new thread.*"),
        ((), "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()", False, "2 threads are running.*"),
    ],
)
def test_what_a_process_gets_and_why_not_more(lacks: tuple[str, ...], before: str, seccomp: bool, problem: str) -> None:
    report, opens_files = confined(before, lacks)
    assert (report.seccomp, opens_files) == (seccomp, not seccomp)
    assert re.fullmatch(problem, report.problem, re.DOTALL), report
    assert bool(report.landlock_abi) == (seccomp and not report.problem)


@pytest.mark.parametrize("section", ["decoder", "resolver"])
def test_required_ends_the_start_with_the_kernels_reason(tmp_path: Path, section: str) -> None:
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
        (("sibling=EPERM",), "", "a template cannot fork here (EPERM)"),
    ],
)
def test_a_node_starts_with_less_and_says_so(tmp_path: Path, lacks: tuple[str, ...], config: str, line: str) -> None:
    (tmp_path / "tonearm.toml").write_text(config)
    node = RunningTonearm("serve", "--port", "0", folder=tmp_path, lacks=lacks)
    told: list[str] = []
    try:
        while "decoders: sandbox" not in "".join(told[-1:]):
            told.append(next(node.stderr).decode())
    finally:
        node.send_signal(signal.SIGTERM)
        rest = node.communicate()
    assert node.wait() == 0, rest
    assert sum(line in text for text in told) == 1


async def test_without_landlock_it_reads_files_and_gets_no_further() -> None:
    command = (*without("landlock=ENOSYS"), *FAKE_SITES)
    async with MediaServer() as server, resolving(fake_sites(command=command, sandbox=SandboxMode.AUTO)) as it:
        through = got_through((await it.failure(server.url("/fake/attack"))).message)
        assert it.pages.sandboxes == [SandboxReport(seccomp=True, problem="landlock: ENOSYS")]
    assert through == attack.RESOLVERS_MAY_WITHOUT_LANDLOCK | {"a thread"}


async def test_a_resolver_that_lacks_a_required_sandbox_resolves_nothing() -> None:
    settings = fake_sites(command=(*without(*NO_SECCOMP), *FAKE_SITES), sandbox=SandboxMode.REQUIRED)
    async with MediaServer() as server, resolving(settings) as it:
        with pytest.raises(SandboxRequiredError):
            await it.pages.start()
        assert "resolver.sandbox" in (await it.failure(server.url("/fake/told"))).message
        assert not server.requests

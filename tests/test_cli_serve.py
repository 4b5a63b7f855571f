"""`tonearm serve` from its start to its end."""

import asyncio
import re
import shlex
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.command import RunningTonearm, run_tonearm
from tests.support.eventually import PATIENCE_S
from tonearm.config.schema import Config
from tonearm.process import ExitCode
from tonearm.serve import (
    VoiceSetupError,
    addresses_behind,
    log_loop_error,
    missing_for_voice,
    missing_of_extra,
    voice_settings,
    voices_of,
)

Serve = Callable[..., "RunningNode"]


class RunningNode:
    """A node in a process of its own, once it listens."""

    def __init__(self, process: RunningTonearm) -> None:
        self.process = process
        self.log: list[str] = []
        for line in process.stderr:
            self.log.append(line.decode())
            found = re.search(r"listens on (http://\S+)", self.log[-1])
            if found:
                self.url = found[1]
                return
        raise AssertionError("".join(self.log))

    def get(self, path: str, **headers: str) -> str:
        request = urllib.request.Request(self.url + path, headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            body: bytes = answer.read()
        return body.decode()

    def stop(self, number: int) -> int:
        """Sends the signal and waits for the exit code; what was logged is in `log`."""
        self.process.send_signal(number)
        self.log += [line.decode() for line in self.process.stderr]
        return self.process.wait()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    processes = []

    def start(*arguments: str, is_fork: bool = True, **variables: str) -> RunningNode:
        serve = ("serve", "--port", "0", *arguments)
        process = RunningTonearm(*serve, folder=tmp_path, variables=variables, is_fork=is_fork)
        processes.append(process)
        return RunningNode(process)

    yield start
    for process in processes:
        process.end()


def test_a_private_node_serves_until_a_signal_exits_with_0_and_warns_of_nothing(serve: Serve) -> None:
    node = serve(is_fork=False)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} INFO tonearm \S+ listens on http://127\.0\.0\.1:\d+\n", node.log[-1]
    )
    assert "version" in node.get("/info")
    assert node.stop(signal.SIGTERM) == 0
    assert not any(word in line for line in node.log for word in ("ERROR", "Traceback", "WARNING"))


def test_the_level_is_kept(serve: Serve, tmp_path: Path) -> None:
    # Nothing at all is told, so the port is taken from the commands to try.
    process = RunningTonearm(
        "serve", "--port", "0", "--try", folder=tmp_path, variables={"TONEARM_LOGGING__LEVEL": "warning"}
    )
    line = process.stdout.readline() + process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate()
    assert b"listens on http://127.0.0.1:" in line
    assert stderr == b""


def test_the_password_of_the_environment_is_asked_for_and_never_logged(serve: Serve) -> None:
    node = serve(TONEARM_SERVER__PASSWORD="sesame", TONEARM_LOGGING__LEVEL="debug")
    with pytest.raises(urllib.error.HTTPError) as caught:
        node.get("/info")
    caught.value.close()
    assert caught.value.code == 401
    assert "version" in node.get("/info", Authorization="sesame")
    assert node.stop(signal.SIGTERM) == 0
    assert "sesame" not in "".join(node.log)


def test_an_open_node_warns_and_names_the_keys_of_what_it_refuses(serve: Serve) -> None:
    node = serve("--host", "0.0.0.0")
    assert node.stop(signal.SIGTERM) == 0
    log = "".join(node.log)
    assert "WARNING other machines can reach this node, and the node has no password; set server.password" in log
    reached = [line for line in node.log if "other machines reach it at http://" in line]
    assert len(reached) == bool(addresses_behind("0.0.0.0"))
    assert not re.search("http://(127|0)[.]", "".join(reached))
    assert "sources.files" in log
    assert "sources.private_networks" in log


def test_a_second_node_is_told_who_has_its_port_or_its_state(serve: Serve, tmp_path: Path) -> None:
    variables = {"TONEARM_STATE__PATH": str(tmp_path / "players.db")}
    node = serve(TONEARM_PASSWORD="sesame", **variables)
    port = node.url.rpartition(":")[2]
    for_its_port = run_tonearm("serve", "--port", port, folder=tmp_path)
    for_its_state = run_tonearm("serve", "--port", "0", folder=tmp_path, variables=variables)
    for refused, what in ((for_its_port, "cannot listen on"), (for_its_state, "is in use by another node")):
        assert refused.returncode == ExitCode.MISSING
        assert what in refused.stderr
        assert refused.stderr.endswith(f"; a node runs already at {node.url} (process {node.process.pid})\n")


async def test_the_end_of_a_closed_tls_connection_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    log_loop_error(loop, {"message": "Fatal error on SSL protocol", "exception": RuntimeError("the handler is closed")})
    assert not caplog.records
    log_loop_error(loop, {"message": "a task failed", "exception": RuntimeError("why")})
    assert "a task failed" in caplog.text


def test_voice_is_there_as_far_as_it_is_wanted_and_can_be() -> None:
    off, wanted, auto = (Config.model_validate({"voice": {"enabled": value}}) for value in (False, True, "auto"))
    for missing in ([], ["PyNaCl"]):
        none, why = voices_of(off, missing)
        assert none is None
        assert "voice.enabled" in why
    none, why = voices_of(auto, ["PyNaCl"])
    assert none is None
    assert "PyNaCl" in why
    assert "pip install" in why
    with pytest.raises(VoiceSetupError, match=r"voice\.enabled is true, and PyNaCl is missing"):
        voices_of(wanted, ["PyNaCl"])
    assert not missing_for_voice()
    requires = ("click>=8", 'pytest>=8; extra == "voice"', "no-such-thing>=1; extra == 'voice'", 'other; extra == "x"')
    assert missing_of_extra("voice", requires) == ["no-such-thing"]


def test_what_is_configured_reaches_the_voices() -> None:
    sections = {"voice": {"udp_ports": "50000-50009", "private_networks": True}, "opus": {"bitrate_bps": 96_000}}
    settings = voice_settings(Config.model_validate(sections))
    assert settings.endpoints == ("*.discord.media",)
    assert (settings.udp_ports, settings.private_networks) == (range(50_000, 50_010), True)
    assert (settings.opus.bitrate_bps, settings.opus.passes_through) == (96_000, True)
    assert (settings.max_connections, settings.connect_timeout_s) == (1000, 10.0)


def test_keys_of_the_older_node_are_warned_of(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "tonearm.toml").write_text("[logging]\nclean_log_on_start = true\n", encoding="utf-8")
    node = serve()
    assert any("WARNING" in line and "logging.clean_log_on_start" in line for line in node.log)


def test_the_commands_to_try_work_as_printed(serve: Serve, tmp_path: Path) -> None:
    node = serve("--try")
    printed = []
    for line in node.process.stdout:
        printed.append(line.decode().strip())
        if printed[-1].startswith("The dashboard"):
            break
    assert printed[-1] == f"The dashboard: {node.url}/dashboard"
    create, listen, skip = (shlex.split(line) for line in printed if line.startswith("curl") or " listen demo " in line)

    assert create[:2] == ["curl", "-d"]
    request = urllib.request.Request(create[3], data=create[2].encode())
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        assert answer.status == 201

    listener = RunningTonearm(*listen[1:], folder=tmp_path)
    for status in listener.stdout:
        if b"Welcome - tonearm" in status and b"playing" in status:
            break

    assert skip[:3] == ["curl", "-X", "POST"]
    with urllib.request.urlopen(urllib.request.Request(skip[3], method="POST"), timeout=PATIENCE_S) as answer:
        assert answer.status == 204
    for status in listener.stdout:
        if b"track ended: skipped" in status:
            break
    listener.send_signal(signal.SIGINT)
    rest, errors = listener.communicate()
    assert b"Stopped." in rest
    assert (listener.wait(), errors) == (0, b"")


def test_a_listener_hears_that_the_node_stops(serve: Serve, tmp_path: Path) -> None:
    node = serve()
    clip = Path(__file__).parent.parent / "src/tonearm/clips/welcome.opus"
    body = f'{{"id": "p", "uri": "{clip}"}}'.encode()
    with urllib.request.urlopen(f"{node.url}/v0/players", data=body, timeout=PATIENCE_S):
        pass
    listener = RunningTonearm("listen", "p", "--url", node.url, "--wait", "1", folder=tmp_path)
    listener.stdout.readline()
    assert node.stop(signal.SIGTERM) == 0
    rest, _ = listener.communicate()
    assert b"The node is shutting down." in rest
    assert listener.wait() == ExitCode.UNREACHED  # it did not come back


def test_the_collector_of_cycles_leaves_alone_what_was_there_at_the_start() -> None:
    """It would hold the audio clock up for 15 to 40 ms each time."""
    script = (
        "import gc, time, tonearm.serve\n"
        "gc.disable()\n"  # as it is while a node loads
        "def took():\n"
        "    begin = time.process_time(); gc.collect(); return time.process_time() - begin\n"
        "before = min(took() for _ in range(3))\n"
        "tonearm.serve.keep_collections_short()\n"
        "assert gc.isenabled()\n"
        "print(before, min(took() for _ in range(3)))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    before_s, after_s = map(float, run.stdout.split())
    assert after_s < before_s / 5

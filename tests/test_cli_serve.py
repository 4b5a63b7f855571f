"""`tonearm serve` from its start to its end."""

import asyncio
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.command import RunningTonearm, run_tonearm
from tests.support.environment import environment
from tests.support.eventually import PATIENCE_S
from tests.support.running_node import running_node
from tonearm import serve
from tonearm.config.schema import Config
from tonearm.process import ExitCode
from tonearm.server.http_server import ConnectionLimits

CONFIG = ("--config", "node-under-test.toml")


async def test_a_private_node_serves_until_a_signal_exits_with_0_and_warns_of_nothing(tmp_path: Path) -> None:
    async with running_node(tmp_path, variables={}) as node:  # not forked
        assert "version" in (await node.request("GET", "/info")).json()
    (line,) = (line for line in node.log if "listens on" in line)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} INFO tonearm \S+ listens on http://127\.0\.0\.1:\d+\n", line
    )
    assert not any(word in line for line in node.log for word in ("ERROR", "Traceback", "WARNING"))


async def test_the_password_is_asked_for_and_never_logged(tmp_path: Path) -> None:
    async with running_node(tmp_path, '[server]\npassword = "sesame"\n[logging]\nlevel = "debug"\n') as node:
        for password, status in (("guess", 401), ("sesame", 200)):
            assert (await node.request("GET", "/info", headers=(("Authorization", password),))).status == status
    assert "sesame" not in "".join(node.log)


async def test_an_open_node_warns_and_names_the_keys_of_what_it_refuses(tmp_path: Path) -> None:
    async with running_node(tmp_path, arguments=("--host", "0.0.0.0")) as node:
        pass
    log = "".join(node.log)
    assert "WARNING other machines can reach this node, and the node has no password; set server.password" in log
    reached = [line for line in node.log if "other machines reach it at http://" in line]
    assert len(reached) == bool(serve.addresses_behind("0.0.0.0"))
    assert not re.search("http://(127|0)[.]", "".join(reached))
    assert "sources.files" in log
    assert "sources.private_networks" in log


async def test_a_second_node_is_told_who_has_its_port_or_its_state(tmp_path: Path) -> None:
    async with running_node(tmp_path, '[server]\npassword = "sesame"\n[state]\npath = "players.db"\n') as node:
        for arguments, what in (
            (("--port", str(node.port)), "cannot listen on"),
            (("--port", "0", *CONFIG), "is in use by another node"),
        ):
            refused = await asyncio.to_thread(run_tonearm, "serve", *arguments, folder=tmp_path)
            assert refused.returncode == ExitCode.MISSING
            assert what in refused.stderr
            assert refused.stderr.endswith(f"; a node runs already at {node.url} (process {node.pid})\n")


def test_a_log_for_programs_says_in_its_own_form_why_the_node_ends(tmp_path: Path) -> None:
    variables = {"TONEARM_LOGGING__FORMAT": "json", "TONEARM_LOGGING__LEVEL": "error"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = run_tonearm("serve", "--port", port, folder=tmp_path, variables=variables)
    (last,) = map(json.loads, refused.stderr.splitlines())  # for the level is kept
    assert (refused.returncode, last["level"]) == (ExitCode.MISSING, "critical")
    why = f"cannot listen on 127.0.0.1:{port}: address already in use; choose another "
    assert last["message"] == f"{why}server.host or server.port (--host, --port)"


STARTED: Final = """
import json, os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
from tonearm.serve import forget_the_starter
forget_the_starter()
sys.stderr.write("into the void")
ended = os.spawnlp(os.P_WAIT, "sh", "sh", "-c", "echo >&2 && exit 7")
with open(sys.argv[1], "w") as file:
    json.dump([[os.readlink(f"/proc/self/fd/{n}") for n in range(3)], ended, [*signal.pthread_sigmask(0, ())]], file)
"""


def test_a_node_is_as_usual_however_the_program_that_started_it_left_streams_and_signals(tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", STARTED, str(told)]
    assert subprocess.run(command, env=environment(), timeout=PATIENCE_S, check=False).returncode == 0
    assert json.loads(told.read_text()) == [["/dev/null"] * 3, 7, []]


def test_the_limits_of_connections_are_those_of_the_configuration_and_of_the_system() -> None:
    server = {"max_connections": 500, "stranger_share": 0.5, "request_timeout_s": 2, "keepalive_timeout_s": 30}
    config = Config.model_validate({"server": server, "public": {"max_connections": 10, "max_per_address": 3}})
    assert serve.connection_limits(config, 10_000) == ConnectionLimits(500, 250, 2, 30)
    assert serve.public_limits(config, 10_000) == ConnectionLimits(10, 10, 2, 15, 3)
    assert serve.connection_limits(config, 400).max_connections == 300
    assert serve.public_limits(config, 20).max_connections == 5
    public = config.model_copy(update={"public": config.public.model_copy(update={"enabled": True})})
    assert serve.connection_limits(public, 400).max_connections == 290


def test_an_address_at_which_the_other_nodes_reach_themselves_is_warned_of() -> None:
    far = "nats://10.0.0.2:4222"
    for engine, host, address, warns in (
        (far, "0.0.0.0", "", True),
        (f"{far}, nats://10.0.0.3:4222", "127.0.0.1", "http://localhost:2341", True),
        (far, "0.0.0.0", "http://10.0.0.11:2333", False),
        (far, "10.0.0.11", "", False),
        ("nats://[::1]:4222", "127.0.0.1", "", False),  # all of it is on this machine
    ):
        sections = {"server": {"host": host, "password": "sesame"}, "cluster": {"url": engine, "address": address}}
        warnings = serve.start_warnings(Config.model_validate(sections))
        assert any("set cluster.address" in warning for warning in warnings) == warns, (engine, host, address)


def test_voice_is_there_as_far_as_it_is_wanted_and_can_be() -> None:
    off, wanted, auto = (Config.model_validate({"voice": {"enabled": value}}) for value in (False, True, "auto"))
    for config, missing, words in ((off, [], "voice.enabled"), (auto, ["PyNaCl"], "pip install")):
        none, why = serve.voices_of(config, missing)
        assert none is None
        assert words in why
    with pytest.raises(serve.VoiceSetupError, match=r"voice\.enabled is true, and PyNaCl is missing"):
        serve.voices_of(wanted, ["PyNaCl"])
    assert "PyNaCl is missing" in (serve.start_problem(wanted, ["PyNaCl"]) or "")
    assert [serve.start_problem(*fine) for fine in ((auto, ["PyNaCl"]), (wanted, []))] == [None, None]
    assert not serve.missing_for_voice()
    requires = ("click>=8", 'pytest>=8; extra == "voice"', "no-such-thing>=1; extra == 'voice'", 'other; extra == "x"')
    assert serve.missing_of_extra("voice", requires) == ["no-such-thing"]


def test_what_is_configured_reaches_the_voices() -> None:
    sections = {"voice": {"udp_ports": "50000-50009", "private_networks": True}, "opus": {"bitrate_bps": 96_000}}
    settings = serve.voice_settings(Config.model_validate(sections))
    assert settings.endpoints == ("*.discord.media",)
    assert (settings.udp_ports, settings.private_networks) == (range(50_000, 50_010), True)
    assert (settings.opus.bitrate_bps, settings.opus.passes_through) == (96_000, True)
    assert (settings.max_connections, settings.connect_timeout_s) == (1000, 10.0)


async def test_the_commands_to_try_work_as_printed(tmp_path: Path) -> None:
    async with running_node(tmp_path, arguments=("--try",)) as node:
        printed: list[str] = []
        while not printed or not printed[-1].startswith("The dashboard"):
            printed.append((await asyncio.to_thread(node.process.stdout.readline)).decode().strip())
        assert printed[-1] == f"The dashboard: {node.url}/dashboard"
        add, listen, skip = (
            shlex.split(line) for line in printed if line.startswith("curl") or " listen demo " in line
        )
        assert (add[:2], add[3], skip[:3]) == (["curl", "-d"], f"{node.url}/v0/players", ["curl", "-X", "POST"])
        assert (await node.request("POST", add[3], json.loads(add[2]))).status == 201
        listener = RunningTonearm(*listen[1:], folder=tmp_path)
        assert any(b"Welcome - tonearm" in status and b"playing" in status for status in listener.stdout)
        assert skip[3].startswith(node.url)
        assert (await node.request("POST", skip[3])).status == 204
        assert any(b"track ended: skipped" in status for status in listener.stdout)
        listener.send_signal(signal.SIGINT)
        rest, errors = listener.communicate()
        assert b"Stopped." in rest
        assert (listener.wait(), errors) == (0, b"")


def test_the_collector_of_cycles_leaves_alone_what_was_there_at_the_start() -> None:
    """It would hold the audio clock up for 15 to 40 ms each time."""
    script = (
        "import gc, tonearm.serve\n"
        "gc.disable()\n"  # as it is while a node loads
        "before = len(gc.get_objects())\n"
        "tonearm.serve.keep_collections_short()\n"
        "print(gc.isenabled(), len(gc.get_objects()) < before / 5)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "True True\n"

"""`tonearm doctor`: checks a machine, a configuration and a node. Prints one line for each check, with the remedy."""

import asyncio
import ctypes.util
import importlib.metadata
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from rich.text import Text

from tonearm.client import ApiError, ConnectError, Node, TonearmError
from tonearm.commands.running import NodeOptions, print_json, seen_by_node, show
from tonearm.config.load import load_config
from tonearm.config.problem import ConfigError
from tonearm.config.schema import Config, ServerConfig
from tonearm.core.printable import one_line
from tonearm.core.source_uri import in_url, node_url
from tonearm.process import ExitCode
from tonearm.sandbox.report import SandboxMode

_MARKS: Final = {"ok": "✓", "note": "!", "wrong": "✗"}
_COLOURS: Final = {"ok": "green", "note": "yellow", "wrong": "red"}
_ROUNDS: Final = 100  # of 10 ms
_GOOD_MS: Final = 5.0
_SOUND_WITHIN_S: Final = 10.0

_SOMEWHERE: Final = ("192.0.2.1", 50_000)  # an address reserved for documentation (RFC 5737)

_SCRIPT_PACKAGES: Final = ("yt-dlp", "yt-dlp-ejs", "quickjs-ng")

Verdict: TypeAlias = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `remedy` is empty if there is nothing to do."""

    verdict: Verdict
    subject: str
    text: str
    remedy: str = ""


def doctor(
    config: Path | None, uri: str | None, discord: bool, as_json: bool, at: NodeOptions, *, has_url: bool
) -> int:
    """1 when something is wrong. `has_url`: the user named the node, else it is the one of the configuration."""

    async def work() -> int:
        has_wrong = False
        async for finding in _findings(config, uri, discord, at, has_url=has_url):
            has_wrong |= finding.verdict == "wrong"
            _show(finding, as_json)
        return ExitCode.FAILED if has_wrong else ExitCode.OK

    return asyncio.run(work())


def _show(finding: Finding, as_json: bool) -> None:
    if as_json:
        print_json(asdict(finding))
        return
    told = one_line(f"{finding.subject}: {finding.text}" + (f" → {finding.remedy}" if finding.remedy else ""))
    show(Text.assemble((_MARKS[finding.verdict], _COLOURS[finding.verdict]), " ", told))


async def _findings(
    path: Path | None, uri: str | None, discord: bool, at: NodeOptions, *, has_url: bool
) -> AsyncIterator[Finding]:
    yield _system()
    finding, config = _configuration(path)
    yield finding
    for one in _decoding(SandboxMode.AUTO if config is None else SandboxMode(config.decoder.sandbox)):
        yield one
    for one in _files(config):
        yield one
    yield _javascript(config)
    for one in _voice(Config() if config is None else config):
        yield one
    yield await _clock()
    async for one in findings_of_node(at, uri, None if config is None else config.server, has_url=has_url):
        yield one
    if discord:
        for one in _discord():
            yield one


def _system() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.platform != "linux":
        return Finding("wrong", "system", f"{sys.platform}, Python {version}", "run the node on Linux")
    return Finding("ok", "system", f"Linux, Python {version}, {len(os.sched_getaffinity(0))} cores")


def _decoding(mode: SandboxMode) -> Iterator[Finding]:
    """The findings of a decoder process, reported by a trial process."""
    # One thread, as the sandbox wants it.
    told = _told_by("tonearm.worker", mode.value, OPENBLAS_NUM_THREADS="1")
    if isinstance(told, str):
        yield Finding("wrong", "decoding", told, "pip install --force-reinstall av numpy")
        return
    yield Finding("ok", "decoding", f"FFmpeg {told['libav']}, av {_version('av')}")
    if told["missing"]:
        remedy = "pip install --force-reinstall --only-binary :all: av"
        yield Finding("wrong", "codecs", f"this FFmpeg lacks {', '.join(told['missing'])}", remedy)
    else:
        yield Finding("ok", "codecs", f"all {told['codecs']}, and encoders for Opus and MP3")
    level, problem = told["sandbox"], told["problem"]
    if problem:
        verdict: Verdict = "wrong" if mode.needs_seccomp and level == "none" else "note"
        yield Finding(verdict, "sandbox", f"{level} ({problem})", "see docs/security.md for what the sandbox needs")
    elif mode is SandboxMode.OFF:
        yield Finding("note", "sandbox", "decoder.sandbox is off", 'decoder.sandbox = "auto"')
    else:
        yield Finding("ok", "sandbox", level)


def _javascript(config: Config | None) -> Finding:
    """Whether the scripts of pages can be run, as a resolver process reports it."""
    told = _told_by("tonearm.sources.resolver.javascript")
    if isinstance(told, str):
        told = {"engine": "", "solver": "", "problem": told}
    is_wanted = config is not None and config.resolver.enabled and config.resolver.javascript
    parts = [f"{name} {told[key]}" for name, key in (("quickjs-ng", "engine"), ("yt-dlp-ejs", "solver")) if told[key]]
    if told["problem"]:
        verdict: Verdict = "wrong" if is_wanted else "note"
        text = "; ".join([*parts, f"{told['problem']}; YouTube plays in part or not at all"])
        return Finding(verdict, "javascript", text, f"{sys.executable} -m pip install -U {' '.join(_SCRIPT_PACKAGES)}")
    text = f"yt-dlp {_version('yt-dlp')} uses {' and '.join(parts)} for YouTube"
    if config is not None and config.resolver.enabled and not config.resolver.javascript:
        return Finding("note", "javascript", f"{text}; resolver.javascript is false", "resolver.javascript = true")
    return Finding("ok", "javascript", text)


def _voice(config: Config) -> Iterator[Finding]:
    """Whether players can play in voice channels, as far as this can be checked without a voice server."""
    settings = config.voice
    if settings.enabled is False:
        yield Finding("note", "voice", "voice.enabled is false")
        return
    told = _told_by("tonearm.voice.process", config.decoder.sandbox)
    if isinstance(told, str):
        verdict: Verdict = "wrong" if settings.enabled is True else "note"
        remedy = f"{sys.executable} -m pip install 'tonearm[voice]'"
        yield Finding(verdict, "voice", f"players cannot speak in voice channels: {told}", remedy)
        return
    libraries = ", ".join(f"{name} {_version(name)}" for name in ("dave.py", "cryptography", "PyNaCl"))
    yield Finding("ok", "voice", f"{libraries}; sandbox {told['sandbox']}")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
            if settings.udp_bind:
                trial.bind((settings.udp_bind, 0))
            trial.connect(_SOMEWHERE)  # This sends nothing.
            address = trial.getsockname()[0]
    except OSError as error:
        yield Finding("note", "voice", f"UDP cannot be sent: {error.strerror}", "check the network and voice.udp_bind")
    else:
        text = f"UDP would be sent from {address}; the first channel shows whether a firewall blocks it"
        yield Finding("ok", "voice", text)


def _told_by(module: str, *words: str, **variables: str) -> dict[str, Any] | str:
    """The JSON report of a trial of one of our modules in its own process, or the reason why there is none."""
    done = subprocess.run(  # noqa: S603 - our own module, by our own interpreter
        [sys.executable, "-P", "-m", module, *words],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return (done.stderr.strip() or f"the check ended with exit code {done.returncode}").splitlines()[-1]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _configuration(path: Path | None) -> tuple[Finding, Config | None]:
    try:
        loaded = load_config(path, os.environ, {})
    except ConfigError as error:
        return Finding("wrong", "configuration", str(error.problems[0]), "tonearm check-config"), None
    origin = str(loaded.path) if loaded.path else "no file, all defaults"
    return Finding("ok", "configuration", origin), loaded.config


def _files(config: Config | None) -> Iterator[Finding]:
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # to which a node raises its own
    if 0 <= most < 4096:  # -1: without limit
        text = f"at most {most} open files, enough for a few hundred players"
        yield Finding("note", "descriptors", text, "raise the limit (ulimit -Hn, LimitNOFILE=)")
    if config is None or config.server.listens_on_loopback_only:
        return
    if not config.server.password.get_secret_value():
        yield Finding("wrong", "password", "no password, and other machines can reach the node", "set server.password")


async def _clock() -> Finding:
    """How late this machine wakes a process that sleeps."""
    late_ms = []
    for _ in range(_ROUNDS):
        due_s = time.monotonic() + 0.01
        await asyncio.sleep(0.01)
        late_ms.append((time.monotonic() - due_s) * 1000)
    late_ms.sort()
    worst = late_ms[int(_ROUNDS * 0.99)]
    text = f"99 of 100 wake-ups were late by {worst:.1f} ms or less"
    if worst > _GOOD_MS:
        return Finding("note", "clock", text, "a frame is due every 20 ms: give the machine less load, or more cores")
    return Finding("ok", "clock", text)


async def findings_of_node(
    at: NodeOptions, uri: str | None, server: ServerConfig | None, *, has_url: bool
) -> AsyncIterator[Finding]:
    """`server` is the configured one: it is asked unless there `has_url`, and nobody else is told its password."""
    url, password = at.url, at.password
    own = "" if server is None else node_url(server.host, server.port)
    if server is not None and (not has_url or url == own):
        if not server.port:
            yield Finding("note", "node", "server.port is 0, so the port changes at each start", "give --url")
            return
        url, password = own, password or server.password.get_secret_value()
    node = Node(url, password=password)
    try:
        async with node:
            info = await node.info()
            yield Finding("ok", "node", f"{url} is tonearm {info.version}")
            stats = await node.stats()
            decoders = [process for process in stats.processes if process.kind == "decoder"]
            left_out = stats.frames_left_out
            if decoders:
                yield Finding("ok", "decoders", f"{len(decoders)} processes, {stats.decoder_exits} ended unexpectedly")
            else:
                yield Finding("wrong", "decoders", "none is running", "read the node's log")
            if left_out:
                yield Finding(
                    "note", "frames", f"{left_out} were dropped: the node was late", "fewer players, or more cores"
                )
            if uri is not None:
                yield await _playable(node, uri, url)
    except ConnectError as error:
        if error.cause != "nothing_listens":
            remedy = "choose another server.port" if url == own else "check --url and TONEARM_URL"
            yield Finding("wrong", "node", error.message, remedy)
            return
        yield Finding("note", "node", error.message, "tonearm serve")
        if server is not None and url == own:
            yield _port(server.host, server.port)
    except ApiError as error:
        yield Finding("wrong", "node", error.message)


async def _playable(node: Node, uri: str, url: str) -> Finding:
    """Plays the URI until some of its sound arrives."""
    source = seen_by_node(uri, url)
    try:
        reason = await node.explain(source)
        if reason is not None:
            return Finding("wrong", "source", reason)
        began_s = time.monotonic()
        player = await node.create_player(f"doctor-{os.getpid()}", source)
        try:
            async with asyncio.timeout(_SOUND_WITHIN_S), player.audio() as audio:
                await anext(aiter(audio))
        finally:
            await player.delete()
    except TimeoutError:
        return Finding("wrong", "source", f"{uri}: no sound within {_SOUND_WITHIN_S:g} s", "read the node's log")
    except TonearmError as error:
        return Finding("wrong", "source", error.message)
    return Finding("ok", "source", f"{uri}: first sound after {time.monotonic() - began_s:.1f} s")


def _port(host: str, port: int) -> Finding:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            return Finding("wrong", "port", f"{in_url(host)}:{port}: {error.strerror}", "choose another server.port")
    return Finding("ok", "port", f"{in_url(host)}:{port} is free")


def _discord() -> Iterator[Finding]:
    for names in (("discord.py", "py-cord", "disnake", "nextcord"), ("PyNaCl",), ("davey", "dave-py")):
        found = [f"{name} {version}" for name in names if (version := _version(name)) is not None]
        if found:
            yield Finding("ok", "discord", ", ".join(found))
        else:
            yield Finding("wrong", "discord", f"{' or '.join(names)} is not installed", "pip install -e '.[discord]'")
    if ctypes.util.find_library("opus") is None:
        yield Finding("note", "discord", "no libopus: PCM sources fail, Opus sources work", "apt install libopus0")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None

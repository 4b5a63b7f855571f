"""`tonearm doctor`: what could be wrong with a machine, a configuration and a node, one line each, with the remedy."""

import asyncio
import ctypes.util
import importlib.metadata
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import click

from tonearm import exit_codes
from tonearm.client import ApiError, ConnectError, Node, TonearmError
from tonearm.commands.running import NodeOptions, print_json, seen_by_node
from tonearm.config.load import load_config
from tonearm.config.problem import ConfigError
from tonearm.config.schema import Config

_MARKS: Final = {"ok": "✓", "note": "!", "wrong": "✗"}
_COLOURS: Final = {"ok": "green", "note": "yellow", "wrong": "red"}
_ROUNDS: Final = 100  # of 10 ms
_GOOD_MS: Final = 5.0


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    config: Path | None
    uri: str | None
    discord: bool
    as_json: bool
    at: NodeOptions


@dataclass(frozen=True, slots=True)
class Finding:
    """`remedy` is empty where there is nothing to do."""

    verdict: Literal["ok", "note", "wrong"]
    subject: str
    text: str
    remedy: str = ""


def doctor(options: DoctorOptions) -> int:
    """1 when something is wrong."""

    async def work() -> int:
        has_wrong = False
        async for finding in _findings(options):
            has_wrong |= finding.verdict == "wrong"
            _show(finding, options.as_json)
        return exit_codes.FAILED if has_wrong else exit_codes.OK

    return asyncio.run(work())


def _show(finding: Finding, as_json: bool) -> None:
    if as_json:
        print_json({name: getattr(finding, name) for name in ("verdict", "subject", "text", "remedy")})
        return
    mark = click.style(_MARKS[finding.verdict], fg=_COLOURS[finding.verdict])
    click.echo(f"{mark} {finding.subject}: {finding.text}" + (f" → {finding.remedy}" if finding.remedy else ""))


async def _findings(options: DoctorOptions) -> AsyncIterator[Finding]:
    yield _system()
    yield _library("av", "decoding", "pip install --force-reinstall av")
    finding, config = _configuration(options.config)
    yield finding
    for one in _files(config):
        yield one
    yield await _clock()
    reached = False
    async for one in _node(options):
        reached |= one.verdict == "ok"
        yield one
    if not reached:
        yield _port(config)
    if options.discord:
        for one in _discord():
            yield one


def _system() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.platform != "linux":
        return Finding("wrong", "system", f"{sys.platform}, Python {version}", "the node runs on Linux")
    return Finding("ok", "system", f"Linux, Python {version}, {os.cpu_count()} cores")


def _library(name: str, purpose: str, remedy: str) -> Finding:
    try:
        return Finding("ok", purpose, f"{name} {importlib.metadata.version(name)}")
    except importlib.metadata.PackageNotFoundError:
        return Finding("wrong", purpose, f"{name} is not installed", remedy)


def _configuration(path: Path | None) -> tuple[Finding, Config | None]:
    try:
        loaded = load_config(path, os.environ, {})
    except ConfigError as error:
        return Finding("wrong", "configuration", str(error.problems[0]), "tonearm check-config"), None
    origin = str(loaded.path) if loaded.path else "no file, all defaults"
    return Finding("ok", "configuration", origin), loaded.config


def _files(config: Config | None) -> Iterator[Finding]:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4096:
        yield Finding("note", "descriptors", f"{soft} at most, a few hundred players", "ulimit -n 65536")
    if config is None or config.server.host in ("127.0.0.1", "localhost", "::1"):
        return
    if not config.server.password.get_secret_value():
        yield Finding("wrong", "password", "none, and the node listens to other machines", "set server.password")


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
        return Finding("note", "clock", text, "frames are due each 20 ms: give the machine less to do, or more cores")
    return Finding("ok", "clock", text)


async def _node(options: DoctorOptions) -> AsyncIterator[Finding]:
    node = Node(options.at.url, password=options.at.password)
    try:
        async with node:
            info = await node.info()
            yield Finding("ok", "node", f"{options.at.url} is tonearm {info.version}")
            stats = await node.stats()
            decoders = [process for process in stats.processes if process.kind == "decoder"]
            left_out = stats.frames_left_out
            if decoders:
                yield Finding("ok", "decoders", f"{len(decoders)} processes, {stats.decoder_exits} ended unasked")
            else:
                yield Finding("wrong", "decoders", "none is running", "read the node's log")
            if left_out:
                yield Finding(
                    "note", "frames", f"{left_out} were left out, the node was late", "fewer players, or more cores"
                )
            if options.uri is not None:
                yield await _playable(node, options.uri, options.at.url)
    except ConnectError as error:
        verdict: Literal["note", "wrong"] = "note" if error.cause == "nothing_listens" else "wrong"
        yield Finding(verdict, "node", error.message, "tonearm serve" if verdict == "note" else "see --url")
    except ApiError as error:
        yield Finding("wrong", "node", error.message)


async def _playable(node: Node, uri: str, url: str) -> Finding:
    try:
        reason = await node.explain(seen_by_node(uri, url))
    except TonearmError as error:
        return Finding("wrong", "source", error.message)
    return Finding("wrong", "source", reason) if reason else Finding("ok", "source", f"{uri} can be played")


def _port(config: Config | None) -> Finding:
    host, port = (config.server.host, config.server.port) if config is not None else ("127.0.0.1", 2333)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            return Finding("wrong", "port", f"{host}:{port}: {error.strerror}", "choose another server.port")
    return Finding("ok", "port", f"{host}:{port} is free")


def _discord() -> Iterator[Finding]:
    extra = "pip install '.[discord]'"
    for name in ("discord.py", "PyNaCl", "davey"):
        yield _library(name, "discord", extra)
    if ctypes.util.find_library("opus") is None:
        yield Finding("note", "discord", "no libopus: PCM sources will not do, Opus does", "apt install libopus0")

"""Runs a node: puts the rooms together, waits for a signal, takes them down again."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

from tonearm.config import Config
from tonearm.config_file import DEFAULT_FILE, LoadedConfig
from tonearm.core.source_policy import SourcePolicy
from tonearm.logging_setup import set_up_logging
from tonearm.node import Node, NodeSettings
from tonearm.patterns import compile_pattern
from tonearm.server.app import BindError, Server, build_app
from tonearm.server.app import serve as listen_on
from tonearm.server.settings import EdgeSettings
from tonearm.sources.fetch_settings import FetchSettings
from tonearm.sources.opener import SourceOpener
from tonearm.sources.resolver.page_resolver import ResolverSetupError
from tonearm.sources.resolver.settings import ResolverSettings
from tonearm.try_it import commands_to_try, node_url
from tonearm.version import VERSION

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_CANNOT_LISTEN: Final = 2
EXIT_WRONG_CONFIG: Final = 2

_SHUTDOWN_PATIENCE_S: Final = 4.0

# A thread that computes gives way to the event loop after this; the interpreter's own 5 ms would delay the audio clock.
_THREAD_SWITCH_S: Final = 0.001

log = logging.getLogger(__name__)


def serve(loaded: LoadedConfig, *, shows_commands: bool) -> int:
    """Runs the node until SIGTERM or SIGINT and returns the exit code; a second signal kills at once."""
    set_up_logging(loaded.config.logging.level)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    sys.setswitchinterval(_THREAD_SWITCH_S)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_run(loaded.config, shows_commands))
    except ResolverSetupError as error:
        sys.stderr.write(f"tonearm: {loaded.path or DEFAULT_FILE}: {error}\n")
        return EXIT_WRONG_CONFIG


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        log.warning("uvloop is not installed; the slower event loop of the standard library is used")
        return None
    return uvloop.new_event_loop


async def _run(config: Config, shows_commands: bool) -> int:
    stop = asyncio.Event()
    _stop_on_signals(stop)
    opener = _opener(config)
    node = Node(opener, _node_settings(config))
    password = config.server.password.get_secret_value()
    app = build_app(node, EdgeSettings(password=password))
    try:
        await node.start()
    except (OSError, TimeoutError) as error:
        log.error("the first decoder process did not start: %s", str(error) or "it took too long")
        return EXIT_FAILED
    try:
        server = await listen_on(app, config.server.host, config.server.port)
    except BindError as error:
        await node.stop()
        sys.stderr.write(f"tonearm: {_bind_problem(config, error)}\n")
        return EXIT_CANNOT_LISTEN
    opener.add_own_address(config.server.host, server.port)
    _tell_start(config, server.port)
    if shows_commands:
        sys.stdout.write(commands_to_try(node_url(config.server.host, server.port), has_password=bool(password)))
        sys.stdout.flush()
    await stop.wait()
    log.info("stopping")
    await _shut_down(server, node)
    return EXIT_OK


def _opener(config: Config) -> SourceOpener:
    sources = config.sources
    policy = SourcePolicy(
        allowed=[compile_pattern(pattern) for pattern in sources.allowed],
        blocked=[compile_pattern(pattern) for pattern in sources.blocked],
        files=sources.files,
        listens_on_loopback_only=config.server.listens_on_loopback_only,
    )
    settings = FetchSettings(
        user_agent=sources.user_agent,
        connect_timeout_s=sources.connect_timeout_s,
        headers_timeout_s=sources.headers_timeout_s,
        stall_timeout_s=sources.stall_timeout_s,
    )
    resolver = ResolverSettings(timeout_s=config.resolver.timeout_ms / 1000, sites=config.resolver.sites)
    return SourceOpener(
        policy,
        private_networks=config.allows_private_networks,
        settings=settings,
        resolver=resolver if config.resolver.enabled else None,
    )


def _node_settings(config: Config) -> NodeSettings:
    return NodeSettings(
        decoder_processes=config.decoder.processes,
        decoder_memory_limit_mb=config.decoder.memory_limit_mb,
        first_listener_wait_ms=config.player.first_listener_wait_ms,
        max_players=config.player.max_players,
        max_waiting_tracks=config.player.max_waiting_tracks,
        max_listeners=config.player.max_listeners,
    )


def _bind_problem(config: Config, error: BindError) -> str:
    """One line in the configuration's words; the system's own repeat the address."""
    cause = error.__cause__
    if not isinstance(cause, OSError) or cause.errno is None or cause.errno <= 0:  # negative: a name's lookup
        return str(error)
    reason = os.strerror(cause.errno).lower()
    return (
        f"cannot listen on {config.server.host}:{config.server.port}: {reason}; "
        "choose another server.host or server.port (--host, --port)"
    )


def _tell_start(config: Config, port: int) -> None:
    server = config.server
    log.info("tonearm %s listens on %s", VERSION, node_url(server.host, port))
    if not server.listens_on_loopback_only and not server.password.get_secret_value():
        log.warning("other machines can reach this node and it has no password; set server.password")
    if not (config.allows_files and config.allows_private_networks):
        log.info(
            "local files are %s (sources.files), addresses of private networks are %s (sources.private_networks)",
            "allowed" if config.allows_files else "refused",
            "allowed" if config.allows_private_networks else "refused",
        )


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def on_first_signal() -> None:
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_first_signal)


async def _shut_down(server: Server, node: Node) -> None:
    try:
        async with asyncio.timeout(_SHUTDOWN_PATIENCE_S):
            await server.stop_accepting()
            await node.stop()
            await server.close()
    except TimeoutError:
        log.warning("not everything ended within %g s; leaving anyway", _SHUTDOWN_PATIENCE_S)

"""Runs a node: creates its parts, waits for a signal, and stops them in order.

It also sets up the log, and prints three commands to try in another terminal. The command line itself is in `cli`.
"""

import asyncio
import gc
import ipaddress
import json
import logging
import os
import re
import resource
import shlex
import signal
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module, metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import uvloop

from tonearm import VERSION
from tonearm.config.load import DEFAULT_FILE, LoadedConfig
from tonearm.config.patterns import compile_pattern, id_matcher
from tonearm.config.schema import Config, PublicConfig, ServerConfig
from tonearm.core.frame import Output
from tonearm.core.library import LibrarySettings
from tonearm.core.policy import SourcePolicy
from tonearm.core.snapshot import Resume
from tonearm.core.source_uri import in_url, is_loopback, node_url
from tonearm.core.voice import VoiceSettings
from tonearm.node.node import Node
from tonearm.node.parts import NodeSettings, Voices, usual_parts, wall_ms
from tonearm.node.state_file import StateFileError
from tonearm.other_nodes import node_at, node_with
from tonearm.process import ExitCode, JsonLines, StderrThread, TextLines, stderr_in_a_thread, supervised
from tonearm.sandbox.report import SandboxMode, SandboxRequiredError
from tonearm.server.app import App, BindError, EdgeSettings, Server, build_app, build_public_app, listen_on
from tonearm.server.audio_settings import AudioSettings, Station
from tonearm.server.http_server import ConnectionLimits
from tonearm.sources.http.settings import FetchSettings
from tonearm.sources.mirrors.settings import MirrorSettings
from tonearm.sources.opener import SourceOpener
from tonearm.sources.proxied_requests import source_opener
from tonearm.sources.resolver.pages import ResolverSettings, ResolverSetupError
from tonearm.sources.resolver.site_keys import SiteKeys
from tonearm.sources.sounds import SoundLimits, Sounds

if TYPE_CHECKING:
    from tonearm.cluster.cluster import Cluster

log = logging.getLogger(__name__)


def set_up_logging(level: str, form: logging.Formatter) -> None:
    """Everything from `level` ("debug", "info", "warning", "error") on goes to stderr, in the form `form`."""
    logging.basicConfig(level=level.upper(), force=True)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(form)
    # These loggers write a line for every request, every selector and every subprotocol that a client offers, which may
    # be a secret. The node logs what matters itself.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    logging.getLogger("aiohttp.websocket").setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


PASSWORD_VARIABLE: Final = "TONEARM_PASSWORD"  # noqa: S105 - the variable's name
_DEMO_ID: Final = "demo"


_LOCAL_IPV4: Final = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")


def addresses_behind(host: str, network: Path = Path("/proc/net")) -> list[str]:
    """The addresses at which other machines reach a node that listens on `host`, when `host` means all addresses, by
    what the system says in the folder `network`; none on systems other than Linux."""
    try:
        if host == "0.0.0.0":  # noqa: S104 - compared, not bound
            found = _LOCAL_IPV4.findall((network / "fib_trie").read_text(encoding="ascii"))
        elif host == "::":
            lines = (network / "if_inet6").read_text(encoding="ascii").splitlines()
            found = [str(ipaddress.IPv6Address(bytes.fromhex(line.split()[0]))) for line in lines]
        else:
            return []
    except (OSError, ValueError):
        return []
    addresses = (ipaddress.ip_address(address) for address in dict.fromkeys(found))
    return [str(address) for address in addresses if not (address.is_loopback or address.is_link_local)]


def way_to_dashboard(url: str, *, has_page: bool) -> str:
    """The dashboard's address, or the command for it when the node does not serve it."""
    return f"{url}/dashboard" if has_page else f"{_command()} dashboard --node {url}"


def _command() -> str:
    return shlex.quote(str(Path(sys.argv[0]).absolute()))


def commands_to_try(url: str, dashboard: str, *, has_password: bool) -> str:
    """Text for a terminal: where the `dashboard` is, and how to create a player on the bundled clip, listen, and skip;
    then where the dashboard is again, because the last line stays visible.

    With a password the commands take it from the environment, so that the text does not show it.
    """
    clip = _clip_uri()
    curl = 'curl -H "Authorization: $' + PASSWORD_VARIABLE + '"' if has_password else "curl"
    tonearm = _command()
    body = shlex.quote(json.dumps({"id": _DEMO_ID, "uri": clip}))
    password_line = f"  (first: export {PASSWORD_VARIABLE}=..., the password of the node)\n" if has_password else ""
    return f"""
tonearm listens on {url}. To see and steer it in a browser:

  {dashboard}

Or paste into another terminal:
{password_line}
  {curl} -d {body} {url}/v0/players
  {tonearm} listen {_DEMO_ID} --url {url}
  {curl} -X POST {url}/v0/players/{_DEMO_ID}/skip

The clip lasts 25 s; {curl} -X POST {url}/v0/players/{_DEMO_ID}/play plays it again.
To hear it, open {url}/v0/players/{_DEMO_ID}/stream.wav in a player such as mpv, VLC or ffplay.
Ctrl-C ends the node.

The dashboard: {dashboard}
"""


def _clip_uri() -> str:
    """The bundled clip, as a path."""
    return f"{_clip_folder()}/welcome.opus"


def _clip_folder() -> str:
    return str(resources.files("tonearm") / "clips")


_SHUTDOWN_PATIENCE_S: Final = 4.0
_DRAIN_WITHIN_S: Final = 20.0

_PUBLIC_KEEPALIVE_S: Final = 15.0  # after it a connection that does not listen is closed, for others

# The first number counts new objects until a collection of the youngest generation, the second such collections until
# one of the next generation. Neither looks at enough objects to delay a frame. The oldest generation would:
# `node.garbage_collection` collects it. The interpreter's defaults are 700, 10 and 10.
_COLLECTION_THRESHOLDS: Final = (2_000, 2, 1_000_000_000)

# A computing thread gives way to the event loop after this; the interpreter's 5 ms would make the clock late.
_THREAD_SWITCH_S: Final = 0.001


def serve(loaded: LoadedConfig, *, shows_commands: bool) -> int:
    """Runs the node until SIGTERM or SIGINT and returns the exit code; a second signal kills at once."""
    forget_the_starter()
    form = JsonLines() if loaded.config.logging.format == "json" else TextLines()
    with stderr_in_a_thread(form) as stderr:
        set_up_logging(loaded.config.logging.level, form)
        return _serve(loaded, shows_commands, stderr)


def _serve(loaded: LoadedConfig, shows_commands: bool, stderr: StderrThread) -> int:
    for warning in loaded.warnings:
        log.warning("%s", warning)
    sys.setswitchinterval(_THREAD_SWITCH_S)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(loaded.config, shows_commands, stderr))
    except (ResolverSetupError, SandboxRequiredError, VoiceSetupError) as error:
        _tell_end(loaded.config, f"{loaded.path or DEFAULT_FILE}: {error}")
        return ExitCode.WRONG_USE if isinstance(error, ResolverSetupError) else ExitCode.MISSING
    except StateFileError as error:
        _tell_end(loaded.config, f"the state {error}{node_with(Path(loaded.config.state.path))}")
        return ExitCode.MISSING


def _tell_end(config: Config, why: str) -> None:
    """Writes the last line, which says why the node ends: to people as other commands do, to programs as the log."""
    if config.logging.format == "json":
        log.critical("%s", why)
    else:
        sys.stderr.write(f"tonearm: {why}\n")


def forget_the_starter() -> None:
    """Undoes what the program that started this process may have done to it: closed its standard streams, or blocked or
    ignored signals."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # otherwise a socket would be taken for a stream
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, processes end without an exit code


def start_warnings(config: Config) -> list[str]:
    """The warnings of `serve` for this configuration on this system. Raises the limit of descriptors, as `serve`
    does."""
    fewer = _fewer_connections(config, raise_descriptor_limit())
    told = [text for section, text in fewer if "max_connections" in section.model_fields_set]
    return [*_warnings_of_reach(config), *told]


def start_problem(config: Config, missing: Sequence[str]) -> str | None:
    """Why `serve` would not start with this configuration on this system: what is wrong with the resolver, or that
    packages for voice are `missing`; None if nothing is."""
    try:
        asyncio.run(_try_opener(_opener(config)))
        voices_of(config, missing)
    except (ResolverSetupError, SandboxRequiredError, VoiceSetupError) as error:
        return str(error)
    return None


async def _try_opener(opener: SourceOpener) -> None:
    try:
        await opener.start()
    finally:
        await opener.close()


_OPEN_TO_OTHERS: Final = "other machines can reach this node, and the node has no password; set server.password"


def _warnings_of_reach(config: Config) -> Iterator[str]:
    """What the configuration says of who reaches the node, and is hardly meant."""
    server, cluster = config.server, config.cluster
    if not server.listens_on_loopback_only and not server.password.get_secret_value():
        yield _OPEN_TO_OTHERS
    address, engines = cluster.address or node_url(server.host, server.port), cluster.url.split(",")
    if cluster.url and _is_here(address) and not any(map(_is_here, engines)):  # else the whole cluster may be here
        yield f"the cluster's nodes on other machines cannot reach this one at {address}; set cluster.address"


def _is_here(url: str) -> bool:
    return is_loopback(urlsplit(url).hostname or "")


def _fewer_connections(config: Config, descriptors: int) -> list[tuple[ServerConfig | PublicConfig, str]]:
    """The sections with more connections than the system allows, each with its warning."""
    most: list[tuple[str, ServerConfig | PublicConfig, ConnectionLimits]]
    most = [("server", config.server, connection_limits(config, descriptors))]
    if config.public.enabled:
        most.append(("public", config.public, public_limits(config, descriptors)))
    found = []
    for name, section, limits in most:
        if limits.max_connections < section.max_connections:
            text = (
                f"at most {limits.max_connections} connections, not {name}.max_connections = "
                f"{section.max_connections}, for the system allows no more descriptors; raise its limit (ulimit -Hn, "
                "LimitNOFILE=)"
            )
            found.append((section, text))
    return found


def raise_descriptor_limit() -> int:
    """Raises the process's limit of open descriptors as far as it may, and returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:  # the hard limit is more than the system gives to one process
            log.warning("the limit of %d descriptors could not be raised: %s", soft, error)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def connection_limits(config: Config, descriptors: int) -> ConnectionLimits:
    """The limits of the node's own address. At least a quarter of the descriptors is left for sources, files and
    processes."""
    server = config.server
    for_public = public_limits(config, descriptors).max_connections if config.public.enabled else 0
    most = min(server.max_connections, max(1, descriptors * 3 // 4 - for_public))
    return ConnectionLimits(
        max_connections=most,
        max_strangers=max(1, int(most * server.stranger_share)),
        request_timeout_s=server.request_timeout_s,
        keepalive_timeout_s=server.keepalive_timeout_s,
    )


def public_limits(config: Config, descriptors: int) -> ConnectionLimits:
    """The limits of the public address. When all places are taken, connections that do not listen give way."""
    public = config.public
    most = min(public.max_connections, max(1, descriptors // 4))
    return ConnectionLimits(
        max_connections=most,
        max_strangers=most,
        request_timeout_s=config.server.request_timeout_s,
        keepalive_timeout_s=min(config.server.keepalive_timeout_s, _PUBLIC_KEEPALIVE_S),
        max_per_address=public.max_per_address,
    )


async def _run(config: Config, shows_commands: bool, stderr: StderrThread) -> int:
    cluster = None
    if config.cluster.url and (cluster := await _joined(config)) is None:
        return ExitCode.MISSING
    try:
        return await _run_node(config, shows_commands, stderr, cluster)
    finally:
        if cluster is not None:
            await cluster.leave()


async def _run_node(config: Config, shows_commands: bool, stderr: StderrThread, cluster: "Cluster | None") -> int:
    descriptors = raise_descriptor_limit()
    stop = asyncio.Event()
    _stop_on_signals(stop)
    asyncio.get_running_loop().set_exception_handler(log_loop_error)
    opener = _opener(config)
    settings = _node_settings(config)
    voice, no_voice = voices_of(config, missing_for_voice())
    saving = None if cluster is None else cluster.saving
    parts = usual_parts(opener, settings, saving=saving, claims=cluster, voice=voice, no_voice=no_voice)
    node = Node(parts, settings)
    answers = None if cluster is None else cluster.attach(node, parts.clock.play_until)
    password = config.server.password.get_secret_value()
    edge_settings = EdgeSettings(
        password=password,
        schemes=config.server.schemes,
        listens_on_loopback_only=config.server.listens_on_loopback_only,
        hosts=config.server.hosts,
        allowed_origins=config.server.allowed_origins,
        connections=connection_limits(config, descriptors),
        audio=_audio_settings(config),
        open_paths=config.server.open_paths,
        requests_per_second=config.server.requests_per_second,
        clip_uri=_clip_uri() if config.allows_files else "",
        has_login=config.dashboard.login,
        logged_out_path=Path(f"{config.state.path}.logged-out") if config.state.path else None,
    )
    app = build_app(node, edge_settings, answers)
    try:
        await node.start()
    except (OSError, TimeoutError) as error:
        log.error("the first decoder process did not start: %s", str(error) or "it took too long")
        return ExitCode.FAILED
    servers: list[Server] = []
    try:
        for one, host, port in _addresses(config, node, app, descriptors):
            servers.append(await listen_on(one, host, port, own_port=config.own_port if one is app else None))
            opener.add_own_address(host, servers[-1].port)
        if config.own_port is not None:
            opener.add_own_address(config.server.host, config.own_port)
    except BindError as error:
        await asyncio.gather(*(server.close() for server in servers))
        await node.stop()
        options = " (--host, --port)" if error.section == "server" else ""
        who = node_at(node_url(host, port)) if error.is_in_use else ""
        _tell_end(config, f"{error}{options}{who}")
        return ExitCode.MISSING
    server = servers[0]
    if cluster is not None:
        cluster.listens_at(config.cluster.address or node_url(config.server.host, server.port))
    if config.public.enabled:
        url = node_url(config.public.host, servers[-1].port)
        log.info("anybody may hear %s at %s", ", ".join(config.public.players), url)
    _tell_start(config, server.port, descriptors)
    node.announce_processes()
    keep_collections_short()
    await asyncio.sleep(0)  # processes that became ready meanwhile are logged before the last line
    url = node_url(config.server.host, server.port)
    shows_page = edge_settings.is_for_own_machine or (edge_settings.has_login and bool(password))
    dashboard = way_to_dashboard(url, has_page=shows_page)
    if shows_commands:
        stderr.has_written_all()  # on a terminal the log's lines come first
        sys.stdout.write(commands_to_try(url, dashboard, has_password=bool(password)))
        sys.stdout.flush()
    else:
        log.info("the dashboard: %s", dashboard)
    async with supervised():
        await _until(stop, cluster)
    log.info("stopping")
    if cluster is not None:
        await cluster.drain(_DRAIN_WITHIN_S)
    await _shut_down(servers, node)
    log.info("stopped")
    if cluster is None or not cluster.ended.is_set():
        return ExitCode.OK
    taken = "another node has taken this node's name; set cluster.node to another name"
    _tell_end(config, f"the cluster {config.cluster.name}: {taken}")
    return ExitCode.MISSING


async def _joined(config: Config) -> "Cluster | None":
    """Joins this node to its cluster. Returns None, and writes a line on stderr, when it cannot join."""
    # With nats-py, which a node alone does not need.
    from tonearm.cluster.cluster import Cluster
    from tonearm.cluster.engine import EngineSettings

    own = config.cluster
    files = ("password_file", "credentials_file", "ca_file", "cert_file", "key_file")
    cluster = Cluster(
        EngineSettings(own.url, own.user, **{name: Path(path) for name in files if (path := getattr(own, name))}),
        own.name,
        own.node or name_by_machine(socket.gethostname(), config.own_port or config.server.port),
        own.lease_s,
        config.server.password.get_secret_value(),
        wall_ms,
    )
    if why := await cluster.join():
        _tell_end(config, f"the cluster {own.name}: {why}")
        return None
    return cluster


def name_by_machine(host: str, port: int) -> str:
    """The cluster name of a node whose configuration gives none."""
    return f"{re.sub('[^A-Za-z0-9_-]', '-', host.partition('.')[0])[:50]}-{port}"


async def _until(stop: asyncio.Event, cluster: "Cluster | None") -> None:
    """Returns when the node is to stop."""
    waits = [asyncio.create_task(stop.wait())]
    if cluster is not None:
        waits.append(asyncio.create_task(cluster.ended.wait()))
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def _addresses(config: Config, node: Node, app: App, descriptors: int) -> list[tuple[App, str, int]]:
    """The applications with their hosts and ports: `app`, and the public address if it is enabled."""
    addresses = [(app, config.server.host, config.server.port)]
    if config.public.enabled:
        is_listed = id_matcher(config.public.players)
        public = build_public_app(node, is_listed, public_limits(config, descriptors), _audio_settings(config))
        addresses.append((public, config.public.host, config.public.port))
    return addresses


def keep_collections_short() -> None:
    """Turns the garbage collector on, and keeps its work short, because long collections make the audio clock late. It
    skips objects of the start, which stay for good. It runs less often, because most objects are freed without it, and
    looks at young objects only."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTION_THRESHOLDS)
    gc.enable()


def _opener(config: Config) -> SourceOpener:
    sources, files = config.sources, config.sources.files
    if isinstance(files, tuple):
        files = (*files, _clip_folder())  # the dashboard offers the clip to whoever tries the node
    policy = SourcePolicy(
        allowed=[compile_pattern(pattern) for pattern in sources.allowed],
        blocked=[compile_pattern(pattern) for pattern in sources.blocked],
        files=files,
        listens_on_loopback_only=config.server.listens_on_loopback_only,
        allowed_hosts=sources.allowed_hosts,
    )
    settings = FetchSettings(
        user_agent=sources.user_agent,
        connect_timeout_s=sources.connect_timeout_s,
        headers_timeout_s=sources.headers_timeout_s,
        stall_timeout_s=sources.stall_timeout_s,
    )
    resolver = ResolverSettings(
        timeout_s=config.resolver.timeout_ms / 1000,
        sites=config.resolver.sites,
        sandbox=SandboxMode(config.resolver.sandbox),
        javascript=config.resolver.javascript,
        default_search=config.resolver.default_search,
        keys=SiteKeys(
            Path(config.resolver.cookies_file) if config.resolver.cookies_file else None,
            config.resolver.extractor_args,
            config.resolver.proxies,
        ),
        mirrors=_mirror_settings(config),
        scripts_folder=Path(f"{config.state.path}-scripts") if config.state.path else None,
    )
    sounds = Sounds(SoundLimits(**dict(config.sounds)))
    return source_opener(
        policy, sources.private_networks, settings, resolver if config.resolver.enabled else None, sounds
    )


def _mirror_settings(config: Config) -> MirrorSettings:
    return MirrorSettings(
        **dict(config.mirror),
        spotify_client_id=config.spotify.client_id,
        spotify_client_secret=config.spotify.client_secret.get_secret_value(),
        by_words=config.resolver.allow_spotify_title_search,
        timeout_s=config.resolver.timeout_ms / 1000,
    )


def _node_settings(config: Config) -> NodeSettings:
    return NodeSettings(
        decoder_processes=config.decoder.processes,
        decoder_memory_limit_mb=config.decoder.memory_limit_mb,
        decoder_sandbox=SandboxMode(config.decoder.sandbox),
        **dict(config.player),
        start_timeout_s=config.sources.start_timeout_s,
        max_load=config.server.max_load,
        library=LibrarySettings(
            config.library_folders,
            config.library.uploads,
            config.library.upload_max_bytes,
            config.library.uploads_max_bytes,
        ),
        state_path=Path(config.state.path) if config.state.path else None,
        resume=Resume(config.state.resume),
    )


class VoiceSetupError(Exception):
    """The configuration demands voice, and a package that it needs is missing."""


_VOICE_MODULE: Final = "tonearm.voice.voices"
_INSTALL_VOICE: Final = "Install it on the node's machine with: pip install 'tonearm[voice]'"


def voices_of(config: Config, missing: Sequence[str]) -> tuple[Voices | None, str]:
    """The voices of the node, or None and the reason. `missing` names the packages that voices need and that are not
    installed. Raises `VoiceSetupError` when the configuration demands voices all the same.

    A node without voices loads none of their modules.
    """
    if config.voice.enabled is False:
        return None, "Voice is off at this node; set voice.enabled."
    if not missing:
        module = import_module(_VOICE_MODULE)
        ways = module.usual_ways(voice_settings(config), SandboxMode(config.decoder.sandbox), wall_ms)
        voices: Voices = module.Voices(ways)
        return voices, ""
    what, remedy = " and ".join(missing), _INSTALL_VOICE
    if config.voice.enabled is True:
        raise VoiceSetupError(f"voice.enabled is true, and {what} is missing. {remedy}")
    return None, f"This node cannot speak in voice channels: {what} is missing. {remedy}"


def missing_for_voice() -> list[str]:
    """The distributions of the extra `voice` that are not installed."""
    return missing_of_extra("voice", metadata.requires("tonearm") or ())


def missing_of_extra(extra: str, requires: Iterable[str]) -> list[str]:
    """The names in lines such as `PyNaCl>=1.5; extra == "voice"` of which nothing is installed."""
    lines = [line for line in requires if f'extra == "{extra}"' in line.replace("'", '"')]
    names = [match[0] for line in lines if (match := re.match(r"[A-Za-z0-9._-]+", line)) is not None]
    return [name for name in names if next(iter(metadata.distributions(name=name)), None) is None]


def voice_settings(config: Config) -> VoiceSettings:
    voice = config.voice
    return VoiceSettings(
        voice.endpoints,
        voice.private_networks,
        voice.processes,
        voice.max_connections,
        voice.connect_timeout_s,
        voice.udp_bind,
        voice.udp_port_range,
        _audio_settings(config).opus,
    )


def _audio_settings(config: Config) -> AudioSettings:
    opus = config.opus
    return AudioSettings(
        opus=Output(
            "opus", opus.bitrate_bps, opus.complexity, opus.fec, opus.signal, opus.variable, passes_through=True
        ),
        mp3_bitrate_bps=config.stream.mp3_bitrate_bps,
        burst_ms=config.stream.burst_ms,
        station=Station(config.stream.name, config.stream.genre, config.stream.url),
    )


def _tell_start(config: Config, port: int, descriptors: int) -> None:
    server = config.server
    log.info("at most %d descriptors, for connections, sources and decoder processes together", descriptors)
    for section, text in _fewer_connections(config, descriptors):
        log.log(logging.WARNING if "max_connections" in section.model_fields_set else logging.INFO, "%s", text)
    log.info("tonearm %s listens on %s", VERSION, node_url(server.host, port))
    for warning in _warnings_of_reach(config):
        log.warning("%s", warning)
    others = [f"http://{in_url(address)}:{port}" for address in addresses_behind(server.host)]
    if others:
        log.info("other machines reach it at %s", " or ".join(others))
    if not (config.allows_files and config.allows_private_networks):
        log.info(
            "local files are %s (sources.files), addresses of private networks are %s (sources.private_networks)",
            "allowed" if config.allows_files else "refused",
            "allowed" if config.allows_private_networks else "refused",
        )


def log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handles errors like the loop's default, except for TLS that ends on a closed connection. uvloop reports that as
    an error, although it is harmless."""
    if context.get("message") == "Fatal error on SSL protocol":
        log.debug("a TLS connection did not end properly: %s", context.get("exception"))
    else:
        loop.default_exception_handler(context)


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def on_first_signal() -> None:
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_first_signal)


async def _shut_down(servers: list[Server], node: Node) -> None:
    try:
        async with asyncio.timeout(_SHUTDOWN_PATIENCE_S):
            for server in servers:
                await server.stop_accepting()
            await node.stop()
            await asyncio.gather(*(server.close() for server in servers))
    except TimeoutError:
        log.warning("not all parts of the node stopped within %g s; the process exits anyway", _SHUTDOWN_PATIENCE_S)

"""The command `tonearm`.

Imports are made where they are needed, so that `--version` and a usage error answer at once.
"""

import argparse
import gc
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tonearm import exit_codes
from tonearm.version import VERSION

if TYPE_CHECKING:
    from tonearm.config.load import LoadedConfig
    from tonearm.config.problem import Given


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command with `arguments` (None: those of the process) and returns its exit code."""
    options = _parser().parse_args(arguments)
    try:
        match options.command:
            case "serve":
                return _serve(options)
            case "init-config":
                return _init_config(options.file)
            case "check-config":
                return _check_config(options.config)
            case "export" | "import":
                return _transfer(options)
            case "dashboard":
                return _dashboard(options)
            case _:
                return _listen(options)
    except KeyboardInterrupt:
        return 130  # what a shell shows for a command that SIGINT ended


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tonearm", description="An audio node over HTTP and WebSocket.")
    parser.add_argument("--version", action="version", version=f"tonearm {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    serve = commands.add_parser("serve", help="run the node until SIGTERM or Ctrl-C")
    _add_config_option(serve)
    serve.add_argument("--host", help="address to listen on, instead of server.host")
    serve.add_argument("--port", help="port to listen on, instead of server.port; 0 lets the system choose")
    serve.add_argument("--try", action="store_true", dest="shows_commands", help="print three commands to try it")

    init_config = commands.add_parser("init-config", help="write a commented file with every key at its default")
    init_config.add_argument("file", nargs="?", type=Path, default=Path("tonearm.toml"), help="default: tonearm.toml")

    check_config = commands.add_parser("check-config", help="check the configuration and show what it comes to")
    _add_config_option(check_config)

    listen = commands.add_parser(
        "listen",
        help="listen to a player in the terminal",
        description="Listens to a player: its state, position, the level of each channel, true peak (dBTP) and the "
        "loudness of the last 400 ms (LUFS, EBU R128), measured from the sound; where the limiter holds peaks, while "
        "the filters have it on; frames that came late; events. At the end, loudness and true peak of all of it.",
    )
    listen.add_argument("player", metavar="PLAYER", help="the player's id")
    _add_node_options(listen)
    listen.add_argument("--save", type=Path, metavar="FILE.wav", help="write the audio to a WAV file")
    listen.add_argument(
        "--raw", action="store_true", help="write PCM to stdout, for: aplay -f S16_LE -r 48000 -c 2 (ALSA)"
    )

    export = commands.add_parser("export", help="write the players of a running node to a file")
    export.add_argument("player", metavar="PLAYER", nargs="?", help="only this one")
    export.add_argument("--output", "-o", type=Path, metavar="FILE", help="default: stdout")
    _add_node_options(export)

    imported = commands.add_parser("import", help="have a running node take over the players of such a file")
    imported.add_argument("file", type=Path, metavar="FILE")
    imported.add_argument("player", metavar="PLAYER", nargs="?", help="only this one")
    _add_node_options(imported)
    _add_dashboard(commands.add_parser("dashboard", help="see and steer nodes in a browser on this machine"))
    return parser


def _add_node_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", default="http://127.0.0.1:2333", help="the node; default: %(default)s")
    parser.add_argument("--password", help="default: the environment variable TONEARM_SERVER__PASSWORD")


def _add_dashboard(dashboard: argparse.ArgumentParser) -> None:
    dashboard.add_argument("--node", action="append", metavar="URL", help="a node; default: http://127.0.0.1:2333")
    dashboard.add_argument(
        "--password-file", action="append", type=Path, default=[], metavar="FILE",
        help="the node's password, or one file for each --node; default: server.password of the configuration",
    )  # fmt: skip
    dashboard.add_argument("--port", type=int, default=2334, help="port to listen on; default: %(default)s")
    dashboard.add_argument("--host", default="127.0.0.1", help="address to listen on; default: %(default)s")
    dashboard.add_argument(
        "--own-password-file", type=Path, metavar="FILE", help="the password of the page itself, for another --host"
    )
    dashboard.add_argument("--no-browser", action="store_true", help="open no browser")


def _add_config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="default: tonearm.toml, if there is one")


def _serve(options: argparse.Namespace) -> int:
    # What is loaded now stays: to look through it again and again for what could go is a tenth of the start's CPU. The
    # collector is switched on again when the node runs (`serve.keep_collections_short`).
    gc.disable()
    from tonearm.config.problem import ConfigError, Given

    given = {}
    if options.host is not None:
        given["server.host"] = Given("option --host", options.host)
    if options.port is not None:
        # A text that is no number goes on as it is, so that the message is the one of the key.
        port = int(options.port) if options.port.isascii() and options.port.isdigit() else options.port
        given["server.port"] = Given("option --port", port)
    try:
        loaded = _load(options.config, given)
    except ConfigError as error:
        return _refuse(str(error))
    from tonearm.serve import serve

    return serve(loaded, shows_commands=options.shows_commands)


def _init_config(file: Path) -> int:
    from tonearm.config.template import config_template

    try:
        # Only for the owner: it is where the password goes.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _refuse(f"{file} exists and is left as it is; name another file, or move it away")
    except OSError as error:
        return _refuse(f"{file} cannot be written: {error.strerror}")
    with open(descriptor, "w", encoding="utf-8") as stream:
        stream.write(config_template())
    sys.stdout.write(f"{file} written: every key with its default.\n")
    return exit_codes.OK


def _check_config(path: Path | None) -> int:
    from tonearm.config.load import DEFAULT_FILE
    from tonearm.config.problem import ConfigError
    from tonearm.config.template import effective_values

    try:
        loaded = _load(path, {})
    except ConfigError as error:
        for problem in error.problems:
            _refuse(problem)
        return exit_codes.WRONG_USE
    from tonearm.serve import start_problem, start_warnings

    refusal = start_problem(loaded.config)
    if refusal is not None:
        return _refuse(f"{loaded.path or DEFAULT_FILE}: {refusal}")
    for warning in (*loaded.warnings, *start_warnings(loaded.config)):
        sys.stderr.write(f"tonearm: warning: {warning}\n")
    origin = loaded.path or "no file"
    sys.stdout.write(f"# {origin} and the environment are in order. With the defaults they come to:\n")
    sys.stdout.write(effective_values(loaded.config))
    return exit_codes.OK


def _listen(options: argparse.Namespace) -> int:
    from tonearm.listen.command import ListenOptions, listen

    return listen(ListenOptions(options.player, options.url, _password(options), options.save, options.raw))


def _transfer(options: argparse.Namespace) -> int:
    from tonearm.transfer import NodeAddress, export_players, import_players

    node = NodeAddress(options.url, _password(options))
    if options.command == "export":
        return export_players(node, options.player, options.output)
    return import_players(node, options.player, options.file)


def _password(options: argparse.Namespace) -> str:
    return options.password if options.password is not None else os.environ.get("TONEARM_SERVER__PASSWORD", "")


def _dashboard(options: argparse.Namespace) -> int:
    from tonearm.config.problem import ConfigError
    from tonearm.dashboard.command import DEFAULT_NODE, DashboardOptions, dashboard

    password = ""
    if not options.password_file:
        try:
            password = _load(None, {}).config.server.password.get_secret_value()
        except ConfigError as error:
            return _refuse(str(error))
    return dashboard(
        DashboardOptions(
            options.node or [DEFAULT_NODE],
            options.password_file,
            password,
            options.host,
            options.port,
            options.own_password_file,
            not options.no_browser,
        )
    )


def _load(path: Path | None, given: "Mapping[str, Given]") -> "LoadedConfig":
    from tonearm.config.load import load_config

    return load_config(path, os.environ, given)


def _refuse(problem: str) -> int:
    sys.stderr.write(f"tonearm: {problem}\n")
    return exit_codes.WRONG_USE

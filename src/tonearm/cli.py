"""The command `tonearm`.

This module defines options and arguments; `tonearm.commands` and `tonearm.serve` do the work. Functions import what
they need, so that `--version` and usage errors answer at once.
"""

import errno
import gc
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click
from click.core import ParameterSource

from tonearm import VERSION
from tonearm.process import ExitCode

if TYPE_CHECKING:
    from tonearm.config.load import LoadedConfig
    from tonearm.config.problem import Given

DEFAULT_NODE: Final = "http://127.0.0.1:2333"
_FILE: Final = click.Path(path_type=Path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command with `arguments` (None: those of the process) and returns its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # as `>&-` has it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - to the end
    code: object = ExitCode.FAILED
    try:
        try:
            code = tonearm.main(arguments, prog_name="tonearm", standalone_mode=False)
        except click.ClickException as error:
            code = error.exit_code
            error.show()
            if isinstance(error, click.NoSuchOption):
                sys.stderr.write("Put -- before a player's id that begins with -, as in: tonearm status -- -x\n")
        except (KeyboardInterrupt, click.Abort):
            code = 130  # what a shell shows for a command that SIGINT ended
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO, errno.ENOSPC):
            raise
        if error.errno == errno.ENOSPC:
            sys.stderr.write(f"tonearm: stdout cannot be written: {error.strerror}.\n")
        # Otherwise the reader or the terminal is gone, so there is nowhere to write an error, now or at Python's exit.
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(null, stream.fileno())
    return code if isinstance(code, int) else ExitCode.OK


class _Password(click.ParamType[str]):
    """A password, or with `is_file` the path of a file with it. Warns when other users can read the file."""

    def __init__(self, *, is_file: bool) -> None:
        self.name = "file" if is_file else "text"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> str:
        password = str(value)
        if self.name == "file":
            try:
                password = Path(value).read_text(encoding="utf-8").rstrip("\r\n")
                if os.stat(value).st_mode & stat.S_IROTH:
                    sys.stderr.write(
                        f"tonearm: warning: other users of this machine can read {value}; run chmod 600 {value}\n"
                    )
            except (OSError, ValueError) as error:
                self.fail(f"{value} cannot be read: {getattr(error, 'strerror', error)}", param, context)
            if not password:
                self.fail(f"{value} is empty; write the password into it", param, context)
        if re.search(r"[\r\n\0]", password):
            self.fail("a password is one line; this one has a line break", param, context)
        return password


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="tonearm %(version)s")
def tonearm() -> None:
    """Run an audio player node, and control it from the terminal.

    Exit codes: 0 success; 1 failure; 2 wrong arguments or configuration; 3 something that the node needs is missing;
    4 no node answered, or the node refused the password.

    \b
    Shell completion for bash (or zsh, fish):
      eval "$(_TONEARM_COMPLETE=bash_source tonearm)"
    """


def _players_there(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """The ids of the node's players for shell completion, if the node answers at once."""
    from tonearm.commands.running import NodeOptions
    from tonearm.commands.show import player_ids

    given = context.params
    url, password = given.get("url") or DEFAULT_NODE, given.get("password_file") or given.get("password") or ""
    return [found for found in player_ids(NodeOptions(url, password)) if found.startswith(begun)]


def _player_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("player", required=False, shell_complete=_players_there)(command)


def _config_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--config", type=_FILE, metavar="FILE", help="Default: tonearm.toml, if it exists.")(command)


def _node_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that name the node. The command gets them as `at`."""

    @wraps(command)
    def at_node(url: str, password: str, password_file: str | None, **options: Any) -> int:
        from tonearm.commands.running import NodeOptions

        if click.get_current_context().get_parameter_source("password") is ParameterSource.COMMANDLINE:
            remedy = "use --password-file or TONEARM_PASSWORD"
            sys.stderr.write(f"tonearm: warning: other users of this machine can read --password; {remedy}\n")
        return cast(int, command(at=NodeOptions(url, password_file or password), **options))

    password = click.option(
        "--password",
        envvar=["TONEARM_PASSWORD", "TONEARM_SERVER__PASSWORD"],
        default="",
        type=_Password(is_file=False),
        help="The node's password; default: TONEARM_PASSWORD, else TONEARM_SERVER__PASSWORD.",
    )
    file = click.option(
        "--password-file", type=_Password(is_file=True), metavar="FILE", help="A file with the node's password."
    )
    url = click.option(
        "--url",
        envvar="TONEARM_URL",
        default=DEFAULT_NODE,
        help=f"The node; default: TONEARM_URL, else {DEFAULT_NODE}.",
    )
    return url(password(file(at_node)))


def _wait_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--wait",
        "wait_s",
        type=click.FloatRange(min=0),
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for a node that restarts.",
    )(command)


def _json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line, for scripts.")(command)


def _sound_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that choose the program for sound. The command gets `output`: None for the first installed program, ""
    for no sound."""

    @wraps(command)
    def sounding(output: str | None, silent: bool, **options: Any) -> int:
        return cast(int, command(output="" if silent else output, **options))

    programs = click.Choice(["mpv", "ffplay", "pw-play", "paplay", "aplay"])
    output = click.option(
        "--output", type=programs, help="The program that plays the sound; default: the first one installed."
    )
    return output(click.option("--silent", is_flag=True, help="Play no sound on this machine.")(sounding))


@tonearm.command("serve")
@_config_option
@click.option("--host", help="Address to listen on, instead of server.host.")
@click.option("--port", help="Port to listen on, instead of server.port; 0 lets the system choose.")
@click.option("--try", "shows_commands", is_flag=True, help="Print three commands to try the node.")
def _serve_command(config: Path | None, host: str | None, port: str | None, shows_commands: bool) -> int:
    """Run the node until SIGTERM or Ctrl-C."""
    # Modules that are loaded now stay for good, and collections over them take a tenth of the start's CPU time. The
    # collector is switched on again when the node runs (`serve.keep_collections_short`).
    gc.disable()
    from tonearm.config.problem import ConfigError, Given

    given = {}
    if host is not None:
        given["server.host"] = Given("option --host", host)
    if port is not None:
        # A text that is not a number is passed on, so that the check of the key writes the message.
        number = int(port) if port.isascii() and port.isdigit() else port
        given["server.port"] = Given("option --port", number)
    try:
        loaded = _load(config, given)
    except ConfigError as error:
        return _refuse(str(error))
    from tonearm.serve import serve

    return serve(loaded, shows_commands=shows_commands)


@tonearm.command("init-config")
@click.argument("file", type=_FILE, default="tonearm.toml")
def _init_config_command(file: Path) -> int:
    """Write a configuration file: every key, its description and its default."""
    from tonearm.config.load import config_template

    try:
        # Only the owner may read it, because the password goes into it.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _refuse(f"{file} exists and was not changed; name another file, or move it away")
    except OSError as error:
        return _refuse(f"{file} cannot be written: {error.strerror}")
    try:
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(config_template())
    except OSError as error:
        file.unlink(missing_ok=True)
        return _refuse(f"{file} cannot be written: {error.strerror}")
    sys.stdout.write(f"{file} written: every key with its default.\n")
    return ExitCode.OK


@tonearm.command("check-config")
@_config_option
def _check_config_command(config: Path | None) -> int:
    """Check the configuration and show the values in effect."""
    from tonearm.config.load import DEFAULT_FILE, effective_values
    from tonearm.config.problem import ConfigError

    try:
        loaded = _load(config, {})
    except ConfigError as error:
        for problem in error.problems:
            _refuse(problem)
        return ExitCode.WRONG_USE
    from tonearm.serve import missing_for_voice, start_problem, start_warnings

    refusal = start_problem(loaded.config, missing_for_voice())
    if refusal is not None:
        return _refuse(f"{loaded.path or DEFAULT_FILE}: {refusal}")
    for warning in (*loaded.warnings, *start_warnings(loaded.config)):
        sys.stderr.write(f"tonearm: warning: {warning}\n")
    given = f"{loaded.path} and the environment are" if loaded.path else "No file was read; the environment is"
    sys.stdout.write(f"# {given} valid. The values in effect, with the defaults:\n")
    sys.stdout.write(effective_values(loaded.config))
    return ExitCode.OK


@tonearm.command("play")
@click.argument("tracks", metavar="URI...", nargs=-1, required=True)
@click.option(
    "--player",
    shell_complete=_players_there,
    help="The player's id. A player that exists gets the tracks into its queue, and is kept at the end.",
)
@click.option("--keep", is_flag=True, help="Keep a new player at the end, too.")
@_sound_options
@_json_option
@_wait_option
@_node_options
def _play_command(**options: Any) -> int:
    """Play files, links or search words, and show the position.

    Keys: space pause, n skip, p previous, left and right 10 s back and forward, + and - volume, q quit. With --json,
    each event is one line.
    """
    from tonearm.commands.play import play

    return play(**options)


@tonearm.command("players")
@_json_option
@_node_options
def _players_command(**options: Any) -> int:
    """List a node's players."""
    from tonearm.commands.show import show_players

    return show_players(**options)


@tonearm.command("nodes")
@_json_option
@_node_options
def _nodes_command(**options: Any) -> int:
    """List the nodes of a cluster."""
    from tonearm.commands.nodes import show_nodes

    return show_nodes(**options)


@tonearm.command("drain")
@click.argument("name", metavar="[NODE]", required=False)
@click.option("--undo", is_flag=True, help="Let the node take players again.")
@_json_option
@_node_options
def _drain_command(**options: Any) -> int:
    """Move all players of a node to the cluster's other nodes.

    Without NODE: of the node at --url.
    """
    from tonearm.commands.nodes import drain_node

    return drain_node(**options)


@tonearm.command("queue")
@_player_argument
@_json_option
@_node_options
def _queue_command(**options: Any) -> int:
    """List the tracks that are up next on a player."""
    from tonearm.commands.show import show_queue

    return show_queue(**options)


@tonearm.command("info")
@click.argument("uri", metavar="FILE|URL")
@_json_option
@_node_options
def _info_command(**options: Any) -> int:
    """Show what a file or link is, or why it cannot be played."""
    from tonearm.commands.show import show_info

    return show_info(**options)


@tonearm.command("events")
@_player_argument
@_json_option
@_wait_option
@_node_options
def _events_command(**options: Any) -> int:
    """Show a player's events until the player is deleted."""
    from tonearm.commands.show import show_events

    return show_events(**options)


@tonearm.command("doctor")
@_config_option
@click.option("--uri", help="Also let the node play this file or link, until there is sound.")
@click.option("--discord", is_flag=True, help="Also check what a Discord bot needs.")
@_json_option
@_node_options
@click.pass_context
def _doctor_command(context: click.Context, /, **options: Any) -> int:
    """Find what is wrong with this machine and the node, with a remedy for each.

    Checks this machine, the configuration, decoding, the sandbox and the node. The node is that of the configuration,
    unless you name another one.
    """
    from tonearm.commands.doctor import doctor

    has_url = context.get_parameter_source("url") is not ParameterSource.DEFAULT
    return doctor(has_url=has_url, **options)


@tonearm.command("listen")
@_player_argument
@click.option("--save", type=_FILE, metavar="FILE.wav", help="Write the audio to a WAV file.")
@click.option("--raw", is_flag=True, help="Write PCM to stdout, for: aplay -f S16_LE -r 48000 -c 2 (ALSA).")
@_sound_options
@_wait_option
@_node_options
def _listen_command(**options: Any) -> int:
    """Listen to a player on this machine, and show its levels.

    With --save or --raw, or with stdout in a pipe, there is no sound unless you name an --output.

    Shows state, position and events; the level of each channel, true peak (dBTP) and the loudness of the last 400 ms
    (LUFS, EBU R128), measured from the sound; the limiter's ceiling, while the limiter is on; frames that came
    late. At the end it shows the loudness and true peak of the whole.
    """
    from tonearm.commands.listen import listen

    return listen(**options)


# Each key with the words after it, and what it does.
_CONTROLS: Final = {
    "status": ("[PLAYER]", "Show a player's state."),
    "create": ("PLAYER [URI...]", "Create a player that plays these files or links."),
    "delete": ("[PLAYER]", "Delete a player."),
    "pause": ("[PLAYER]", "Pause a player."),
    "resume": ("[PLAYER]", "Resume after a pause, or play the last track again."),
    "stop": ("[PLAYER]", "End the track and keep the queue."),
    "skip": ("[PLAYER]", "Skip to the next track."),
    "previous": ("[PLAYER]", "Play the previous track."),
    "seek": ("[PLAYER] 1:30|+10|-10", "Seek to a position in the track, or some seconds forward or back."),
    "volume": ("[PLAYER] [80|+5|-5]", "Set the volume in percent, or show it."),
    "loop": ("[PLAYER] [none|track|queue]", "Set the loop mode, or show it."),
    "add": ("[PLAYER] URI...", "Add files, links or search words to the queue."),
    "remove": ("[PLAYER] NUMBER...", "Remove tracks from the queue, by the numbers that `queue` shows."),
    "move": ("[PLAYER] FROM TO", "Move a track in the queue, by the numbers that `queue` shows."),
    "clear": ("[PLAYER]", "Clear the queue."),
    "shuffle": ("[PLAYER]", "Shuffle the queue."),
    "say": ("[PLAYER] URI", "Play a sound over the music, and lower the music meanwhile."),
}


def _add_control(order: str, words: str, told: str) -> None:
    is_required = bool(re.sub(r"\[[^]]*]", "", words).strip())

    # An argument that is not an option may be a number below 0.
    @tonearm.command(order, help=told, context_settings={"ignore_unknown_options": order in ("seek", "volume")})
    @click.argument("words", metavar=words, nargs=-1, required=is_required, shell_complete=_players_there)
    @_json_option
    @_node_options
    def command(**options: Any) -> int:
        from tonearm.commands.control import control

        return control(order, **options)

    if order == "add":
        click.option("--next", is_flag=True, help="Add at the front of the queue.")(command)
    if order == "say":
        duck = click.FloatRange(-60, 0)
        told = "How far to lower the music."
        click.option("--duck", type=duck, default=-18.0, show_default=True, metavar="DB", help=told)(command)


for _order, (_words, _told) in _CONTROLS.items():
    _add_control(_order, _words, _told)


@tonearm.command("export")
@_player_argument
@click.option("--output", "-o", "file", type=_FILE, metavar="FILE", help="The file; default: stdout.")
@_node_options
def _export_command(**options: Any) -> int:
    """Write all players of a node, or one, to a file."""
    from tonearm.commands.transfer import export_players

    return export_players(**options)


@tonearm.command("import")
@click.argument("file", type=_FILE)
@_player_argument
@_node_options
def _import_command(**options: Any) -> int:
    """Import all players of an exported file, or one, into a node."""
    from tonearm.commands.transfer import import_players

    return import_players(**options)


@tonearm.command("dashboard")
@click.option("--node", "nodes", multiple=True, metavar="URL", help=f"A node; default: {DEFAULT_NODE}.")
@click.option(
    "--password-file",
    "passwords",
    multiple=True,
    type=_Password(is_file=True),
    metavar="FILE",
    help="A file with the password of the nodes, or one file for each --node; default: TONEARM_PASSWORD, else "
    "server.password of the configuration.",
)
@click.option("--port", type=int, default=2334, show_default=True, help="Port to listen on.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--own-password-file",
    "own_password",
    type=_Password(is_file=True),
    metavar="FILE",
    help="A file with the dashboard's own password; needed where --host is not this machine alone.",
)
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="The host name of a TLS proxy in front of the dashboard, such as radio.example.",
)
@click.option("--no-browser", is_flag=True, help="Open no browser.")
def _dashboard_command(nodes: Sequence[str], passwords: Sequence[str], no_browser: bool, **options: Any) -> int:
    """Open the dashboard of nodes in a browser on this machine."""
    from tonearm.config.problem import ConfigError
    from tonearm.dashboard.command import dashboard

    try:
        given = [os.environ.get("TONEARM_PASSWORD") or _load(None, {}).config.server.password.get_secret_value()]
    except ConfigError as error:
        if not passwords:
            return _refuse(str(error))
    return dashboard(list(nodes) or [DEFAULT_NODE], passwords or given, opens_browser=not no_browser, **options)


def _load(path: Path | None, given: "Mapping[str, Given]") -> "LoadedConfig":
    from tonearm.config.load import load_config

    return load_config(path, os.environ, given)


def _refuse(problem: str) -> int:
    sys.stderr.write(f"tonearm: {problem}\n")
    return ExitCode.WRONG_USE

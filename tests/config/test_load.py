"""From a file, the environment and options to a configuration."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from functools import partial
from operator import ne
from pathlib import Path

import pytest

from tonearm.config.load import THIS_MACHINE, LoadedConfig, Machine, effective_values, load_config
from tonearm.config.problem import ConfigError, Given
from tonearm.config.schema import Config

Load = Callable[..., LoadedConfig]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Loads the given TOML text with the given environment, for this machine or another."""

    def load_text(text: str | bytes, machine: Machine = THIS_MACHINE, **variables: str) -> LoadedConfig:
        path = Path("node.toml")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_config(path, variables, machine=machine)

    with chdir(tmp_path):
        yield load_text


# What is wrong, and what the one line must say about it.
WRONG: list[tuple[str | bytes, str]] = [
    ("[server]\nport = = 1\n", "node.toml: is not valid TOML: Invalid value (at line 2, column 8)"),
    (f"a = {'9' * 5000}", "node.toml: is not valid TOML"),
    ("a = " + "[" * 5000, "node.toml: is not valid TOML: nested too deep"),
    (b"[server]\n# caf\xe9\n", "node.toml, line 2: is not UTF-8"),
    ("[sever]\n", "node.toml, line 1: unknown section or key sever; did you mean server?"),
    ("[server]\n\npasword = ''", "line 3: unknown key server.pasword; did you mean password?"),
    ("[server]\nqqq = 1\n", "unknown key server.qqq; there are host, port, reuse_port"),
    ("[server]\nlevel = 'info'\n", "server.level; it belongs to the section [logging]"),
    ("port = 1\n", "line 1: unknown key port; it belongs to"),
    ("server = 3\n", "line 1: server: must be a section, [server], not 3"),
    ("[public]\nenabled = true\n", 'line 1: public: is enabled and lists no players; set public.players = ["radio"]'),
    (
        "public = {enabled = true, players = ['radio'], port = 2333}\n",
        "line 1: public: has the same port as the server, 2333; set public.port to another one",
    ),
    ("[server]\nport = true\nhost = 1\n", "(and 1 more)"),
    ("[spotify]\nclient_id = 'x'\n", "line 1: spotify: needs both spotify.client_id and spotify.client_secret"),
    ("[spotify]\nclient_secret = 'x'\n", "line 1: spotify: needs both spotify.client_id and spotify.client_secret"),
]
# Keys with a value that they cannot have, and what is said of it behind the name of the key.
WRONG_VALUES = {
    'server.port = "2333"': ': Input should be a valid integer, not "2333"',
    "server.host = ''": ": must be an address or a name to listen on",
    "server.host = 'localhost:2333'": 'as "127.0.0.1" or "::1", with the port in server.port, not "localhost:2333"',
    "server.hosts = ['a.example', 'a.example:80']": 'without scheme and port; "a.example:80" is not one',
    "server.allowed_origins = ['http://a/']": 'must list origins such as "https://radio.example:8443", without a path',
    "server.schemes = ['digest']": ", entry 1: Input should be 'bearer' or 'basic'",
    "server.open_paths = ['/v0/stats']": ": can list only /metrics",
    "server.password = ' x'": ": must not begin or end with",
    'server.password = "a\\nb"': ": must not contain control characters",
    "resolver.enabled = 1": ": Input should be a valid boolean, not 1",
    "sources.stall_timeout_s = 0": ": Input should be greater than 0, not 0",
    "sources.blocked = ['a', 2]": ", entry 2: Input should be a valid string, not 2",
    "sources.blocked = ['ok', 'ab(c']": ': the pattern "ab(c" does not compile: missing ): ab(c',
    "sources.allowed = ['x(?!y)']": ('the pattern "x(?!y)" does not compile: invalid perl operator: (?! (character 2)'),
    'sources.allowed = ["a\\n("]': 'the pattern "a ("',
    "sources.allowed_hosts = ['http://a.example']": ": must list host names",
    "sources.files = 'yes'": ': must be "auto", true, false, or a list of folders',
    "sources.private_networks = 1": ': must be "auto", true or false, not 1',
    'sources.user_agent = "a\\nb"': ": must be printable ASCII",
    "resolver.proxies = ['socks5://me:hush@a.example:1']": ': each must be written "http://HOST:PORT" or ',
    "resolver.proxies = 'hush'": ": Input should be a valid list",
    "resolver.extractor_args = {youtube = 'hush'}": ": Input should be a valid dictionary",
    "mirror.search = ['yt']": ': must list searches of sites that play, such as "ytsearch"; "yt" is not one',
    "mirror.country = 'USA'": ': must be the two letters of a country, such as "US" or "de", not "USA"',
    "mirror.deezer_url = 'api.deezer.com'": ": must be an http or https address without a query",
    "cluster.url = '10.0.0.2:4222'": ': must be written "nats://HOST:PORT", several separated by commas',
    "cluster.address = 'http://[::1'": ": must be an http or https address without a query",
    "logging.level = 'loud'": ": Input should be 'debug', 'info', 'warning' or 'error', not \"loud\"",
    "public.players = ['radio', 'club/*']": 'with * for any number of characters and ? for one; "club/*" is not an id',
}


def complaint(load: Load, text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text)
    message = str(caught.value)
    assert message.startswith("node.toml")
    assert "\n" not in message
    return message


@pytest.mark.parametrize(("text", "told"), WRONG)
def test_what_is_wrong_is_told_in_one_line(load: Load, text: str | bytes, told: str) -> None:
    assert told in complaint(load, text)


@pytest.mark.parametrize("line", WRONG_VALUES)
def test_a_wrong_value_is_told_with_its_line_and_key(load: Load, line: str) -> None:
    section, _, setting = line.partition(".")
    key, _, _ = line.partition(" = ")
    place, _, told = complaint(load, f"[{section}]\n{setting}\n").partition(key)
    assert place == "node.toml, line 2: "
    assert WRONG_VALUES[line] in told


def test_a_wrong_secret_is_not_told(load: Load) -> None:
    for key, values in (
        ("server.password", ("' hush'", '"hush\\n"', "['hush']", "{hush = 1}")),
        ("spotify.client_secret", ("0x68757368",)),
        ("cluster.url", ("'nats://me:hush@10.0.0.2:4222'",)),
        ("resolver.extractor_args", ("{youtube = 'hush'}",)),
    ):
        for value in values:
            told = complaint(load, f"{key} = {value}\n")
            assert key in told
            assert not re.search(f"hush|{0x68757368}", told)


def test_a_missing_file_and_a_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        load_config(tmp_path / "none.toml", {})
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path, {})
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        load_config(Path("/dev/zero"), {})


def test_what_the_resolver_needs_is_named_beside_all_other_mistakes(load: Load) -> None:
    with pytest.raises(ConfigError) as refused:
        load("[server]\nport = -1\n[resolver]\nenabled = true\n", Machine(has_module=lambda name: False))
    _, problem = sorted(refused.value.problems, key=lambda one: "resolver.enabled is true" in one)
    assert "yt-dlp is not installed" in problem
    assert f"{sys.executable} -m pip install yt-dlp" in problem  # with the interpreter that runs
    with_extra = Machine(has_module=lambda name: True)
    assert load("[resolver]\nenabled = true\n", with_extra).config.resolver.enabled


def test_what_a_cluster_needs_is_named_with_the_key_that_wants_it(load: Load) -> None:
    values = {"TONEARM_CLUSTER__URL": "nats://a.example", "TONEARM_CLUSTER__CREDENTIALS_FILE": "my.creds"}
    for variable, key, module, package in (
        ("TONEARM_CLUSTER__URL", "cluster.url", "nats", "nats-py"),
        ("TONEARM_CLUSTER__CREDENTIALS_FILE", "cluster.credentials_file", "nkeys", "nkeys"),
    ):
        told = f"^environment variable {variable}: {key} is set, but {package} is not"
        with pytest.raises(ConfigError, match=told):
            load("", Machine(has_module=partial(ne, module)), **values)


def test_a_file_that_a_cluster_needs_and_that_cannot_be_read_is_named(load: Load, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("x")
    text = f"password_file = '{tmp_path}/password'\nca_file = '{tmp_path}/none.pem'\n"
    with pytest.raises(ConfigError) as refused:
        load(f"[cluster]\nurl = 'nats://a.example'\n{text}")
    (problem,) = refused.value.problems
    assert f"cluster.ca_file: there is no file {tmp_path}/none.pem that the user who runs this can read" in problem
    assert load(f"[cluster]\n{text}").config.cluster.ca_file


@pytest.mark.parametrize("text", [b"\xef\xbb\xbf[server]\nport = 1\n", b"[server]\r\nport = 1\r\n"])
def test_files_of_other_editors_are_fine(load: Load, text: bytes) -> None:
    assert load(text).config.server.port == 1


def test_without_a_path_the_file_of_the_folder_is_read(tmp_path: Path) -> None:
    with chdir(tmp_path):
        assert load_config(None, {}) == LoadedConfig(Config())
        Path("tonearm.toml").write_text("[server]\nport = 7\n")
        loaded = load_config(None, {})
        Path("tonearm.toml").rename("elsewhere.toml")
        Path("tonearm.toml").symlink_to("not mounted.toml")
        with pytest.raises(ConfigError, match=r"tonearm\.toml: cannot be read: No such file"):
            load_config(None, {})
    assert loaded.config.server.port == 7
    assert loaded.path == Path("tonearm.toml")


def test_the_environment_goes_before_the_file_and_options_before_both(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text("[server]\nport = 1\nhost = '127.0.0.1'\n[logging]\nlevel = 'error'\n")
    variables = {"TONEARM_SERVER__PORT": "2", "TONEARM_SERVER__HOST": "::1"}
    config = load_config(path, variables, {"server.port": Given("option --port", 3)}).config
    assert (config.server.port, config.server.host, config.logging.level) == (3, "::1", "error")


def test_variables_mean_what_they_would_in_the_file(load: Load) -> None:
    for section, key, text, value in (
        ("server", "port", "8080", 8080),
        ("sources", "connect_timeout_s", "1.5", 1.5),
        ("sources", "blocked", '["a,b", "c"]', ("a,b", "c")),
        ("sources", "files", "true", True),
        ("sources", "files", "auto", "auto"),
        ("sources", "files", '["/srv"]', ("/srv",)),
    ):
        found = getattr(getattr(load("", **{f"TONEARM_{section}__{key}".upper(): text}).config, section), key)
        assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("password", ["1234", "true", '["x"]', ""])
def test_a_password_of_the_environment_stays_a_text(load: Load, password: str) -> None:
    config = load("", TONEARM_SERVER__PASSWORD=password).config
    assert config.server.password.get_secret_value() == password


def test_a_wrong_variable_is_named(load: Load) -> None:
    for variable, text, told in (
        ("TONEARM_SERVER__PORT", "many", 'server.port: Input should be a valid integer, not "many"'),
        ("TONEARM_RESOLVER__ENABLED", "yes", "resolver.enabled: Input should be a valid boolean"),
        ("TONEARM_SOURCES__BLOCKED", '["("]', "does not compile"),
        ("TONEARM_SERVER__PASSWORD", "hush ", "must not begin or end with blanks"),
        ("TONEARM_SERVER__PASWORD", "hush", "no such key; did you mean TONEARM_SERVER__PASSWORD?"),
        ("TONEARM___", "x", "no such key"),
    ):
        with pytest.raises(ConfigError, match=f"^environment variable {variable}: ") as caught:
            load("", **{variable: text})
        assert (told in str(caught.value), "hush" in str(caught.value)) == (True, False)


def test_a_variable_without_section_is_told_as_not_read(load: Load) -> None:
    (warning,) = load("", TONEARM_HOSTS="here", TONEARM_URL="http://there", PATH="/bin").warnings
    assert "TONEARM_HOSTS is not read; did you mean TONEARM_SERVER__HOSTS?" in warning
    (warning,) = load("", TONEARM_HOME="x").warnings  # of something else
    assert "did you mean" not in warning
    assert "TONEARM_<SECTION>__<KEY>" in warning


def test_the_library_is_where_files_may_be_played(load: Load, tmp_path: Path) -> None:
    music, inner, other = tmp_path / "music", tmp_path / "music" / "sent", tmp_path / "other"
    inner.mkdir(parents=True)
    other.mkdir()
    (tmp_path / "link").symlink_to(music)
    files = f'[sources]\nfiles = ["{music}"]\n'
    public = '[server]\nhost = "0.0.0.0"\n'
    assert load("").config.library_folders == (os.getcwd(),)
    assert load(files).config.library_folders == (str(music),)
    for good in (
        f'{files}[library]\nfolders = ["{tmp_path}/link"]\nuploads = "{inner}"',
        f'[library]\nfolders = ["{other}"]\nuploads = "{other}/to be made"',
        f'{public}[sources]\nfiles = true\n[library]\nfolders = ["{other}"]',
    ):
        assert load(good).warnings == (), good
    for bad, told in (
        (f'{files}[library]\nfolders = ["{other}"]', "add the folder to sources.files"),
        (f'{public}[library]\nfolders = ["{other}"]', "add the folder to sources.files"),
        ('[library]\nfolders = ["/proc"]', "no file can be played"),
        (f'{files}[library]\nuploads = "{other}"', f"in no folder of the library ({music})"),
        (f'[sources]\nfiles = false\n[library]\nuploads = "{os.getcwd()}"', "in no folder"),
    ):
        assert told in complaint(load, bad), bad
    folders = f'["{music}", "{tmp_path}/none"]'
    (warning,) = load(f"[library]\nfolders = {folders}").warnings
    assert warning == f"library.folders: there is no folder {tmp_path}/none"


def test_folders_that_cannot_be_used_are_named(load: Load, tmp_path: Path) -> None:
    good, closed, file = tmp_path / "good", tmp_path / "closed", tmp_path / "file"
    good.mkdir()
    closed.mkdir(mode=0)
    file.touch()
    # To root no folder is closed.
    of_another = Machine(may=lambda path, mode: path != str(closed))
    folders = [str(path) for path in (good, closed, file, tmp_path / "none")] + ["not/there"]
    assert load(f"[sources]\nfiles = {folders}\n", of_another).warnings == (
        f"sources.files: the folder {closed} cannot be read by the user who runs this",
        f"sources.files: {file} is not a folder",
        f"sources.files: there is no folder {tmp_path / 'none'}",
        "sources.files: there is no folder not/there",
    )


@pytest.mark.parametrize(("full", "taken"), [(None, "hush"), ("more exact", "more exact"), ("", "")])
def test_the_password_has_the_name_that_clients_read_too(load: Load, full: str | None, taken: str) -> None:
    variables = {"TONEARM_PASSWORD": "hush"} | ({} if full is None else {"TONEARM_SERVER__PASSWORD": full})
    loaded = load('[server]\npassword = "of the file"', **variables)
    assert loaded.config.server.password.get_secret_value() == taken
    assert not loaded.warnings


def test_keys_of_the_older_node_are_read_and_named(load: Load) -> None:
    loaded = load(
        """
        logging = { clean_log_on_start = true }
        resolver = { ffmpeg_path = "ffmpeg", preferred_format = "140", allow_spotify_title_search = true }
        [spotify]
        client_id = "x"
        client_secret = "MY_SECRET"
        allow_spotify_title_search = true
        """,
        MY_SECRET="y",
    )
    (warning,) = loaded.warnings
    for name in ("logging.clean_log_on_start", "resolver.ffmpeg_path", "spotify.allow_spotify_title_search"):
        assert name in warning
    spotify = loaded.config.spotify
    assert (spotify.client_id, spotify.client_secret.get_secret_value()) == ("x", "y")  # which may name a variable


def test_keys_of_sites_are_shown_to_nobody(load: Load) -> None:
    youtube = '{ po_token = ["web.gvs+hush"], player_client = "tv" }'
    config = load(f'[resolver]\nproxies = ["http://me:hush@a.example:1"]\nextractor_args.youtube = {youtube}\n').config
    assert config.resolver.extractor_args == {"youtube": {"po_token": ("web.gvs+hush",), "player_client": ("tv",)}}
    assert "hush" not in effective_values(config) + repr(config)

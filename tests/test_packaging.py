"""What is given to others is whole: the wheel, the files for Docker and systemd."""

import asyncio
import base64
import json
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

import tonearm
from tests.support.audio_files import tone, wav
from tests.support.environment import environment
from tests.support.missing_programs import needs
from tests.support.processes import descriptors_left
from tests.support.readme import REPOSITORY
from tests.support.running_node import RunningNode, running_node
from tonearm.config.load import load_config
from tonearm.config.schema import SECTIONS
from tonearm.process import notify, watchdog_interval_s


class Wheels(NamedTuple):
    """The node's and the client's, which is of another version, `CLIENT_VERSION`."""

    node: Path
    client: Path


CLIENT_VERSION: Final = "99.0"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    """Of a copy of the repository, so that building leaves nothing in it."""
    folder = tmp_path_factory.mktemp("wheels")
    copy = folder / "copy"
    for name in ("src", "client"):
        shutil.copytree(REPOSITORY / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSES.md"):
        shutil.copy(REPOSITORY / name, copy)
    build(copy, folder)
    release = copy / "src" / "tonearm" / "__init__.py"
    release.write_text(release.read_text().replace(f'"{tonearm.VERSION}"', f'"{CLIENT_VERSION}"'))
    build(copy / "client", folder)
    (node,), (client,) = folder.glob("tonearm-*.whl"), folder.glob("tonearm_client-*.whl")
    return Wheels(node, client)


def build(project: Path, folder: Path) -> None:
    """As pip asks for a wheel."""
    script = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", script, str(folder)], cwd=project, check=True, capture_output=True, env=environment()
    )


class Place:
    """An environment in which nothing of tonearm is installed. Its libraries are those that are installed here; what is
    imported of tonearm is only what a test installs."""

    def __init__(self, folder: Path) -> None:
        self.python = folder / "venv" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
        (self.packages,) = (folder / "venv").glob("lib/python*/site-packages")
        here = Path(sysconfig.get_path("purelib"))
        libraries = folder / "libraries"
        libraries.mkdir()
        for found in here.iterdir():
            if "tonearm" not in found.name and found.suffix != ".pth":
                (libraries / found.name).symlink_to(found)
        (self.packages / "libraries.pth").write_text(f"{libraries}\n")

    def install(self, *wheels: Path) -> None:
        pip = [str(self.python), "-m", "pip", "install", "--no-deps", "--no-index", "--no-compile"]
        subprocess.run([*pip, *map(str, wheels)], check=True, capture_output=True, env=environment())

    def says(self, script: str) -> str:
        """What a program prints, or the last line of its error."""
        command = [str(self.python), "-W", "ignore", "-c", script]
        done = subprocess.run(command, cwd=self.packages.parent, capture_output=True, text=True, check=False)
        return (done.stdout if done.returncode == 0 else done.stderr).strip().rpartition("\n")[2]


def test_what_is_pinned_is_checked_when_it_is_installed() -> None:
    """pip takes a file only if its hash is one of those; and no file here says where files come from."""
    for name in ("build", "runtime", "resolver", "cluster", "voice", "engine", "dev", "browser"):
        pinned = (REPOSITORY / "requirements" / f"{name}.txt").read_text()
        package = r"^[a-z][\w.-]*==\S+(?: ; [^\n\\]+)? \\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+"
        packages = re.findall(package, pinned, re.MULTILINE)
        assert "".join(packages) == pinned


WHICH: Final = "import tonearm, tonearm.discord as bot, tonearm.client; print(tonearm.VERSION, bot.join.__name__)"


def test_the_nodes_wheel_holds_all_files(wheels: Wheels) -> None:
    sources = REPOSITORY / "src"
    kept = {str(path.relative_to(sources)) for path in (sources / "tonearm").rglob("*") if path.is_file()}
    kept = {name for name in kept if "__pycache__" not in name and not name.endswith(".d.ts")}
    held = {name for name in zipfile.ZipFile(wheels.node).namelist() if name.startswith("tonearm/")}
    assert held == kept, f"change package-data in pyproject.toml: {sorted(held ^ kept)}"


def test_the_client_is_whole_alone_and_beside_the_node_which_plays(tmp_path: Path, wheels: Wheels) -> None:
    place = Place(tmp_path)
    with zipfile.ZipFile(wheels.node) as of_node, zipfile.ZipFile(wheels.client) as of_client:
        assert not {*of_node.namelist()} & {*of_client.namelist()}  # so that either goes without the other
        of_client.extractall(tmp_path / "client")
        (licence,) = [name for name in of_client.namelist() if name.endswith("/LICENSE")]
        assert of_client.read(licence) == (REPOSITORY / "LICENSE").read_bytes()
    alone = f"import site; site.addsitedir({str(tmp_path / 'client')!r}); "
    assert place.says(alone + WHICH) == f"{CLIENT_VERSION} join"
    assert place.says(f"{alone}import tonearm.node") == "ModuleNotFoundError: No module named 'tonearm.node'"
    place.install(*wheels)
    assert place.says(WHICH) == f"{tonearm.VERSION} join"  # the node's, which has all
    assert place.says("import tonearm.node.node, tonearm.client; print('whole')") == "whole"
    (tmp_path / "tone.wav").write_bytes(wav(tone(440.0, 0.2)))
    command = str(place.python.with_name("tonearm"))
    serve = [command, "serve", "--port", "0"]
    with subprocess.Popen(serve, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as node:
        assert node.stderr is not None
        (url,) = re.findall("listens on (http://.*)", next(line for line in node.stderr if "listens on" in line))
        play = [command, "play", "tone.wav", "--url", url]
        played = subprocess.run(play, cwd=tmp_path, capture_output=True, text=True, check=False)
        node.terminate()
        node.stderr.read()
    assert (played.returncode, played.stdout) == (0, "tone\n"), played.stderr


def test_the_image_names_what_there_is() -> None:
    text = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    for name in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE):
        for source in name.split():
            assert (REPOSITORY / source).exists(), source
            ignored = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").split()
            assert f"!{source.partition('/')[0]}" in ignored
    for section, key in re.findall(r"TONEARM_([A-Z]+)__([A-Z_]+)", text):
        assert key.lower() in SECTIONS[section.lower()].model_fields
    assert "USER 1000" in text
    assert "mkdir /state && chown 1000:1000 /state" in text  # a new volume there belongs to the user, too


PROXY: Final = {"http_proxy": "http://127.0.0.1:1", "no_proxy": ""}  # for the way out, as Docker hands it to containers


def composition() -> Any:
    return yaml.safe_load((REPOSITORY / "compose.yaml").read_text(encoding="utf-8"))


async def exit_code(check: list[str], node: RunningNode, password: str, name: str = "TONEARM_PASSWORD") -> int | None:
    """Of the program that asks whether the node answers."""
    how, python, *words = check
    assert (how, python) == ("CMD", "python")
    words = [word.replace(":2333/", f":{node.port}/") for word in words]
    variables = environment({"TONEARM_SERVER__PORT": str(node.port), name: password, **PROXY})
    asking = await asyncio.create_subprocess_exec(sys.executable, *words, env=variables, stderr=subprocess.DEVNULL)
    return await asking.wait()


async def test_the_composition_keeps_players_lets_programs_in_and_asks_whether_the_node_answers(tmp_path: Path) -> None:
    service = composition()["services"]["tonearm"]
    assert service["cap_drop"] == ["ALL"]
    assert "state:/state" in service["volumes"]
    assert service["hostname"]  # logins that outlast a restart are made of it
    assert {one["restart"] for one in composition()["services"].values()} == {"unless-stopped"}
    assert composition()["volumes"].keys() == {"state", "engine"}
    (command,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
    check, of_image = service["healthcheck"]["test"], ["CMD", *json.loads(command)]
    variables = {
        name: value.replace("/state", str(tmp_path)).replace("${TONEARM_PASSWORD:?Set TONEARM_PASSWORD}", "sesame")
        for name, value in service["environment"].items()
    }
    body = {"id": "radio", "uri": "song.flac"}
    async with running_node(tmp_path, variables=variables) as node:
        for value in (b"sesame", b"Bearer sesame", b"Basic " + base64.b64encode(b"me:sesame")):
            assert (await node.request("GET", "/metrics", headers=(("Authorization", value),))).status == 200
        assert (await node.request("GET", "/metrics")).status == 401
        page = await node.request("GET", "/dashboard/", headers=(("Accept", "text/html"),))
        assert b"<form" in page.body
        created = await node.request("POST", "/v0/players", body, headers=(("Authorization", "sesame"),))
        assert created.status == 201
        assert await exit_code(check, node, "") == await exit_code(of_image, node, "") == 0  # by an open path
    del variables["TONEARM_SERVER__OPEN_PATHS"]
    async with running_node(tmp_path, variables=variables) as node:
        state = await node.request("GET", "/v0/players/radio/state", headers=(("Authorization", "sesame"),))
        assert state.status == 200
        for name in ("TONEARM_PASSWORD", "TONEARM_SERVER__PASSWORD"):
            assert await exit_code(of_image, node, "sesame", name) == 0
        assert await exit_code(of_image, node, "wrong") == 1
    assert await exit_code(of_image, node, "sesame") == 1


def test_the_nodes_of_a_cluster_are_configured_as_nodes_can_be() -> None:
    """In the composition, in Kubernetes, and where systemd starts several on one machine."""
    services = composition()["services"]
    nodes = {name: services[name]["environment"] for name in ("node-1", "node-2", "node-3")}
    for name, variables in nodes.items():
        assert services[name]["profiles"] == services["engine"]["profiles"] == ["cluster"]
        assert variables["TONEARM_CLUSTER__NODE"] == name
    file = REPOSITORY / "deploy" / "kubernetes.yaml"
    (stateful,) = (one for one in yaml.safe_load_all(file.read_text()) if one["kind"] == "StatefulSet")
    pod = stateful["spec"]["template"]["spec"]
    assert pod["enableServiceLinks"] is False  # else TONEARM_PORT and others are the addresses of the services
    (container,) = pod["containers"]
    given = {one["name"]: one.get("value", "pod-0") for one in container["env"]}
    probes = [container[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    startup, longest_lease_s, start_s = container["startupProbe"], 60, 30
    assert startup["periodSeconds"] * startup["failureThreshold"] >= longest_lease_s + start_s
    assert stateful["spec"]["template"]["metadata"]["annotations"]["prometheus.io/scrape"] == "true"
    assert {*probes, "/metrics"} <= {*json.loads(given["TONEARM_SERVER__OPEN_PATHS"])}  # they send no password
    nodes["pod-0"] = {name: text.replace("$(TONEARM_CLUSTER__NODE)", "pod-0") for name, text in given.items()}
    unit = (REPOSITORY / "deploy" / "cluster.conf").read_text()
    lines = re.findall(r"^Environment=([A-Z_]+)=(.*)$", unit, re.MULTILINE)
    nodes["systemd"] = {name: text.replace("%i", "2341") for name, text in lines}
    nodes["systemd"]["TONEARM_CLUSTER__URL"] = "nats://127.0.0.1:4222"
    for name, variables in nodes.items():
        config = load_config(None, variables).config
        assert config.cluster.url.startswith("nats://"), name
        assert config.cluster.address_port == (2341 if config.server.reuse_port else config.server.port), name


SECRET: Final = re.compile(r"^# (?=LoadCredential=|Environment=)", re.MULTILINE)  # a line of the unit that some need


def test_the_unit_gives_the_node_secrets_that_only_root_can_read() -> None:
    unit = SECRET.sub("", (REPOSITORY / "deploy" / "tonearm.service").read_text(encoding="utf-8"))
    assert "\nEnvironmentFile=-/etc/tonearm/environment\n" in unit
    names = re.findall("^LoadCredential=([a-z]+):", unit, re.MULTILINE)
    variables = dict(re.findall("(TONEARM_[A-Z_]+)=([^\\s:]+)", unit))
    config = load_config(None, variables).config
    assert config.server.password.get_secret_value() == "sesame"
    assert [config.resolver.cookies_file, config.cluster.password_file] == [f"%d/{name}" for name in names]


@needs("systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = (REPOSITORY / "deploy" / "tonearm.service").read_text(encoding="utf-8")
    file = tmp_path / "tonearm.service"
    file.write_text(SECRET.sub("", unit).replace("/opt/tonearm/bin/tonearm", sys.executable))
    checked = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, check=False)
    complaints = [line for line in checked.stderr.splitlines() if "tonearm.service" in line and "landlock" not in line]
    assert not complaints
    most_exposed = 20  # tenths; 9.6 is none at all
    exposure = ["systemd-analyze", "security", "--offline=true", f"--threshold={most_exposed}", str(file)]
    subprocess.run(exposure, capture_output=True, check=True)


async def test_a_service_manager_is_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        async with running_node(tmp_path, variables=variables):
            told = [manager.recv(64) for _ in range(3)]
        assert told == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
        while (last := manager.recv(64)) == b"WATCHDOG=1":
            pass
        assert last == b"STOPPING=1"


def test_how_often_the_watchdog_hears() -> None:
    assert watchdog_interval_s({"WATCHDOG_USEC": "30000000"}) == 15.0
    for other in ({}, {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"}):
        assert watchdog_interval_s(other) is None


def test_without_a_service_manager_or_free_descriptors_nothing_is_said(tmp_path: Path) -> None:
    for address in ("", "nowhere", str(tmp_path / "missing"), "@tonearm-of-nobody"):
        notify("READY=1", {"NOTIFY_SOCKET": address})
    with descriptors_left(0):
        notify("WATCHDOG=1", {"NOTIFY_SOCKET": str(tmp_path / "notify")})

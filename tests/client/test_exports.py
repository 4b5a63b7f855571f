"""What a program may rely on, and what it costs to import."""

import subprocess
import sys
import tomllib
from functools import cache

import tonearm.bots.discord
import tonearm.bots.source
import tonearm.client
import tonearm.discord
from tests.support.readme import REPOSITORY
from tonearm.protocol import events


def test_every_event_of_a_player_can_be_named() -> None:
    kinds = {
        name
        for name, kind in vars(events).items()
        if isinstance(kind, type) and "op" in getattr(kind, "model_fields", ())
    }
    assert kinds - {"PlayerCreate", "EventsLost"} <= set(tonearm.client.__all__)


@cache
def loaded() -> set[str]:
    """The modules that are there in a bot."""
    script = "import sys, tonearm.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_bot_loads_nothing_of_what_only_a_node_needs() -> None:
    assert not {"numpy", "av", "uvloop", "re2", "prometheus_client", "msgspec", "yt_dlp"} & loaded()


def test_the_bots_package_holds_all_that_the_client_imports() -> None:
    """client/pyproject.toml names the packages of its wheel."""
    settings = tomllib.loads((REPOSITORY / "client" / "pyproject.toml").read_text(encoding="utf-8"))
    held = {name.removeprefix("tonearm_client.") for name in settings["tool"]["setuptools"]["packages"]}
    ours = {name for name in loaded() if name.partition(".")[0] == "tonearm"}
    assert {name for name in ours if name not in held and name.rpartition(".")[0] not in held} == set()
    node = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    assert {line.partition("#")[0] for line in settings["project"]["dependencies"]} <= set(node)

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

NAMES = """
    ApiError AudioStream BadRequest Conflict ConnectError CrossfadeChange Disconnected EndReason Event EventStream
    EventsLost FiltersChange Forbidden Frame LimitReached ListenersChange LoopMode LoopModeChange Metadata
    MetadataChange Node NodeFailed NodeInfo NotFound OverlayEnd OverlayException OverlayStart PRESETS Place Playable
    PlayedTrack Player PlayerCreate PlayerDelete PlayerExists PlayerGone PlayerMoved PlayerNotFound PlayerPause
    PlayerResume PlayerState PlayerUpdate Queue QueueDetails QueueEnd QueueUpdate QueuedTrackDetails Reconnected
    Seek SeekFailed
    SentSound State Stats StreamTitle TonearmError Track TrackEnd TrackException TrackStart TrackStuck
    Unauthorized UnknownEvent Voice VoiceLink VoiceState
"""


def test_the_list_of_exports_changes_on_purpose_only() -> None:
    """A name that goes breaks somebody's program: it is a change for CHANGELOG.md."""
    assert sorted(tonearm.client.__all__) == sorted(NAMES.split())
    assert all(hasattr(tonearm.client, name) for name in NAMES.split())


def test_the_names_of_the_bots_side_stay() -> None:
    assert tonearm.discord.join is tonearm.bots.discord.join


def test_every_event_of_a_player_can_be_named() -> None:
    kinds = {
        name
        for name, kind in vars(events).items()
        if isinstance(kind, type) and "op" in getattr(kind, "model_fields", ())
    }
    assert kinds - {"PlayerCreate", "EventsLost"} <= set(NAMES.split())


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

"""The rooms of the house and the ways between them. Imports for type checking and inside of functions count."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

import tonearm

SOURCE: Final = Path(tonearm.__file__).parent

MESSAGES: Final = ("decoder.messages", "decoder.message_coding")
# Mathematics of sound, and nothing of a decoder process: the listener measures with it, too.
METERS: Final = tuple(f"worker.filters.{name}" for name in ("blocks", "loudness"))


def _worker(*names: str) -> tuple[str, ...]:
    return tuple(f"worker.{name}" for name in names)


# What each room may import of tonearm. A module is in the room of the longest name here that it begins with.
MAY_IMPORT: Final[Mapping[str, tuple[str, ...]]] = {
    "core": ("core",),
    "protocol": ("protocol", "core"),
    "description": ("description", "protocol", "core"),
    "sandbox": ("sandbox",),
    "decoder": (*MESSAGES, "core", "sandbox.report"),
    "decoder.pool": (
        *("decoder.pool", *MESSAGES, "sandbox.report"),
        *("core.admission", "core.call_later", "core.figures", "core.frame"),
    ),
    "decoder.opening": ("decoder.opening", "decoder.pool", "decoder.messages", "core"),
    "decoder.session": (
        *("decoder.session", "decoder.opening", "protocol.framing"),
        *("decoder.pool", "decoder.messages", "core"),
    ),
    "worker": ("worker", *MESSAGES, "core", "sandbox"),
    # The rooms of a decoder process, from the one that imports most to those that import only core and what is said
    # between the processes. The process itself stands above them.
    "worker.rendering": (
        *_worker("rendering", "packets", "mixing", "sources", "filters"),
        *("decoder.messages", "core"),
    ),
    "worker.packets": (
        *_worker(
            "packets", "mixing.voices", "sources.packet_store", "sources.pcm_store", "media.opus_format", "filters"
        ),
        *("decoder.messages", "core"),
    ),
    "worker.mixing": (*_worker("mixing", "sources.pcm_store", "filters"), "decoder.messages", "core"),
    "worker.sources": (*_worker("sources", "media", "reading", "filters", "memory"), *("decoder.messages", "core")),
    "worker.media": (*_worker("media", "reading", "filters.blocks", "filters.chain"), "core"),
    "worker.reading": (*_worker("reading"), *MESSAGES, "core"),
    "worker.filters": (*_worker("filters"), "core"),
    "sources": ("sources", "core"),
    "sources.resolver": ("sources", "core", "sandbox"),
    "player": ("player", "decoder", "protocol.framing", "core"),
    "player.clients": ("player.clients", "protocol.framing", "core"),
    "node.parts": (
        *("node.load", "node.quarantine", "node.saving", "node.file_saving", "node.state_file"),
        *("player.clients.event_feed", "player.clock", "player.player", "player.player_services"),
        *("decoder.opening.track_loader", "decoder.pool", "sources.opener", "sandbox.report"),
        *("core.call_later", "core.library", "core.snapshot", "core.voice"),
    ),
    "node.tracks": ("decoder.opening.track_loader", "sources", "protocol.wire_model", "core"),
    "node.files": (
        *("node.tracks", "decoder.opening.track_loader", "sources.library", "sources.opener", "sources.uploads"),
        "core",
    ),
    "node.garbage_collection": ("core.call_later",),
    "node.load": ("core",),
    "node.quarantine": ("sources", "core"),
    "node.queue_rows": ("core",),
    "node.changes": ("node.queue_rows", "protocol.saved_state", "core"),
    "node.state_file": ("node.changes", "node.queue_rows", "protocol.wire_model", "protocol.saved_state", "core"),
    "node.saving": ("node.changes", "core"),
    "node.file_saving": (
        *("node.changes", "node.saving", "node.state_file"),
        *("protocol.saved_state", "sources.detached_threads", "core"),
    ),
    # Many nodes as one. `serve` loads it where it is configured.
    "cluster": (
        *("cluster", "node.changes", "node.node", "node.saving", "player.player", "player.clients", "player.handle"),
        *("server", "protocol", "description", "core"),
    ),
    "node": ("node", "player", "decoder", "protocol.framing", "protocol.wire_model", "core"),
    "dashboard": ("dashboard", "core.source_uri", "core.request_rates", "process"),
    "dashboard.page_files": ("protocol.filters", "protocol.wire_model", "core"),
    "server": (
        *("server", "dashboard.page_files"),
        *("node.node", "node.tracks", "player.handle", "protocol.framing"),
        *("protocol", "description", "core"),
    ),
    "client": ("client", "protocol", "core"),
    "bots": ("bots", "client"),
    # The names of it that programs know.
    "discord": ("bots",),
    "disnake": ("bots",),
    "nextcord": ("bots",),
    # The node's voice connections. `serve` loads them where there are any. A voice process is a room of its own.
    "voice": (
        *("voice.voices", "voice.connection", "voice.gateway", "voice.discovery", "voice.media", "voice.messages"),
        *("player.player", "decoder.pool.starting", "protocol.framing", "sources.guard", "sandbox.report", "core"),
    ),
    "voice.process": ("voice.process", "voice.messages", "decoder.messages", "sandbox", "core"),
    "config": (
        *("config", "core.source_uri", "core.policy", "core.errors", "core.printable", "core.service_links"),
        *("core.cluster", "core.voice"),
    ),
    "process": ("core.printable",),
    "other_nodes": (),
    "serve": (
        "config",
        "cluster.cluster",
        "cluster.engine",
        "other_nodes",
        "process",
        "server",
        "node.node",
        "node.parts",
        "node.state_file",
        "sources",
        "core",
        "sandbox.report",
    ),
    "commands": ("commands", "client", "config", "core", "process", "sandbox.report"),
    "commands.listen": (
        "commands.listen_display",
        "commands.running",
        "commands.sounding",
        "client",
        "core",
        "process",
    ),
    "commands.listen_display": ("commands.running", *METERS, "client", "core"),
    "cli": ("config", "serve", "commands", "dashboard.command", "process"),
    "__main__": ("cli",),
}

# Libraries that only some rooms may know: all that are imported and not of the standard library.
ONLY_IN: Final[Mapping[str, tuple[str, ...]]] = {
    "av": _worker("media", "packets", "process"),
    "aiohttp": (
        "sources",
        "server",
        "client",
        "dashboard",
        "cluster.answers",
        "cluster.forwarding",
        "cluster.moving",
        "cluster.relays",
        "cluster.together",
        "voice.gateway",
    ),
    "click": ("cli",),
    "cryptography": ("voice.process.rtp",),
    "dave": ("voice.process.dave",),
    "discord": ("bots.discord",),
    "disnake": ("bots.disnake",),
    "nextcord": ("bots.nextcord",),
    "msgspec": (
        *MESSAGES,
        "cluster.forwarding",
        "cluster.together",
        "server.json_pieces",
        "sources.mirrors.requests",
        "voice.messages",
    ),
    "nacl": ("voice.process.rtp",),
    "nats": ("cluster.engine",),
    "multidict": ("server", "dashboard.page_server"),
    "numpy": (*_worker("media", "filters", "mixing", "packets", "rendering"), "commands.listen_display"),
    "prometheus_client": ("protocol.metrics",),
    "pydantic": ("protocol", "description", "client", "commands", "server.bodies", "config"),
    "pydantic_core": ("protocol.wire_model", "server.bodies"),
    "re2": ("config.patterns",),
    "rich": ("commands",),
    "uvloop": ("serve",),
    "yarl": ("sources", "client", "dashboard.passing_on", "cluster.forwarding", "cluster.membership"),
    "yt_dlp": tuple(f"sources.resolver.{one}" for one in ("extraction", "node_requests", "challenges", "javascript")),
    "yt_dlp_ejs": ("sources.resolver.javascript",),
    "_quickjs": ("sources.resolver.javascript",),
}

# Libraries that are distributed under another name than they are imported by.
DISTRIBUTION: Final[Mapping[str, str]] = {
    "dave": "dave.py",
    "nacl": "pynacl",
    "nats": "nats_py",
    "re2": "google_re2",
    "_quickjs": "quickjs_ng",
    "discord": "discord.py[voice]",
    "disnake": "disnake[voice]",
    "nextcord": "nextcord[voice]",
}

# Rules are decided from what is given: no input and output, no clock, no chance, nothing that waits.
NOT_IN_CORE: Final = frozenset(
    {
        "asyncio", "concurrent", "ctypes", "glob", "http", "io", "logging", "mmap", "multiprocessing", "os", "pathlib",
        "queue", "random", "sched", "secrets", "select", "selectors", "shutil", "signal", "socket", "ssl", "subprocess",
        "tempfile", "threading", "time", "uuid",
    }
)  # fmt: skip


@cache
def modules() -> Mapping[str, ast.Module]:
    """Every module's tree by its name below `tonearm` (a package's own module has the package's name)."""
    return {
        _name(path): ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in sorted(SOURCE.rglob("*.py"))
    }


def _name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


@cache
def imports(name: str) -> tuple[str, ...]:
    """Full names of what the module imports; of `from a import b`, `a.b` when that is a module of ours."""
    found: list[str] = []
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import, which this test cannot place"
            assert node.module is not None
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found.append(full if full.removeprefix("tonearm.") in modules() else node.module)
    return tuple(found)


def our_imports(name: str) -> set[str]:
    """Not the package itself: it has the release, which everybody may know."""
    return {full.partition(".")[2] for full in imports(name) if full.partition(".")[0] == "tonearm"} - {""}


def foreign_imports(name: str) -> set[str]:
    return {full.partition(".")[0] for full in imports(name)} - {"tonearm"}


def is_in(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def room_of(name: str) -> str:
    rooms = [room for room in MAY_IMPORT if is_in(name, (room,))]
    assert rooms, f"{name} is in no room; give it one in MAY_IMPORT"
    return max(rooms, key=len)


MODULES: Final = tuple(name for path in sorted(SOURCE.rglob("*.py")) if (name := _name(path)))


def test_a_module_imports_only_what_its_room_may() -> None:
    wrong = [
        f"{name} imports {other}"
        for name in MODULES
        for other in sorted(our_imports(name))
        if not is_in(other, MAY_IMPORT[room_of(name)])
    ]
    assert not wrong


def test_no_room_may_more_than_it_does() -> None:
    used = {
        room: {other for name in MODULES if room_of(name) == room for other in our_imports(name)} for room in MAY_IMPORT
    }
    unused = [
        f"{room}: {other}"
        for room, allowed in MAY_IMPORT.items()
        for other in allowed
        if not (is_in(other, (room,)) or any(is_in(name, (other,)) for name in used[room]))
    ]
    unused += [
        f"{library}: {room}"
        for library, rooms in ONLY_IN.items()
        for room in rooms
        if not any(library in foreign_imports(name) for name in MODULES if is_in(name, (room,)))
    ]
    assert not unused


def test_a_library_is_known_in_its_rooms_only() -> None:
    wrong = [
        f"{name} imports {library}"
        for library, rooms in ONLY_IN.items()
        for name in MODULES
        if library in foreign_imports(name) and not is_in(name, rooms)
    ]
    assert not wrong


def test_every_library_that_is_imported_has_its_rooms() -> None:
    foreign = {library for name in MODULES for library in foreign_imports(name)} - sys.stdlib_module_names
    assert foreign == set(ONLY_IN)


def test_every_library_that_is_imported_is_declared() -> None:
    """What another dependency brings along today may be gone with its next version."""
    project = tomllib.loads(SOURCE.parent.parent.joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    declared = {re.split(r"[<>=;\s]", line, maxsplit=1)[0].replace("-", "_") for line in lines}
    assert {DISTRIBUTION.get(library, library) for library in ONLY_IN} <= declared


def test_the_rules_use_the_standard_library_only_and_nothing_of_it_that_acts() -> None:
    for name in MODULES:
        if is_in(name, ("core",)):
            foreign = foreign_imports(name)
            assert foreign <= sys.stdlib_module_names, name
            assert not foreign & NOT_IN_CORE, name


def test_no_module_leads_back_to_itself() -> None:
    graph = {name: our_imports(name) & set(MODULES) - {name} for name in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"imports in a circle: {' -> '.join(error.args[1])}")


def test_a_large_class_has_its_reason_in_the_architecture() -> None:
    text = (SOURCE.parent.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    reasons = text.partition("## Large classes")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", reasons)) == {
        name for module in MODULES for name in large_classes(modules()[module])
    }


def large_classes(module: ast.Module) -> Iterator[str]:
    for one in ast.walk(module):
        if isinstance(one, ast.ClassDef):
            functions = [part.name for part in one.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            attributes = {
                node.attr
                for node in ast.walk(one)
                if isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            }
            if sum(not name.startswith("_") for name in functions) > 20 or len(attributes) > 16:
                yield one.name


# What a test has otherwise than a node it gives where the object is made. Others than these plant no faults in modules.
REPLACE_WHAT_IS_CALLED: Final = {
    *("sources/test_library.py", "sources/resolver/test_scripts.py"),
    *("worker/test_session_errors.py", "worker/reading/test_reader.py"),
    *("support/fake_voice.py", "support/planted_faults.py"),
}


def test_hardly_any_test_replaces_what_a_module_calls() -> None:
    folder = Path(__file__).parent
    words = re.compile(r"\b(monkeypatch|MonkeyPatch|patch\.object|mock\.patch)\b")
    found = {str(path.relative_to(folder)) for path in folder.rglob("*.py") if words.search(path.read_text("utf-8"))}
    assert found - {Path(__file__).name} == REPLACE_WHAT_IS_CALLED

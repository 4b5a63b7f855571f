"""The rooms of the house and the ways between them. Imports for type checking and inside of functions count."""

import ast
import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

import tonearm

SOURCE: Final = Path(tonearm.__file__).parent


def _table(text: str) -> Mapping[str, tuple[str, ...]]:
    """By the name before each colon the names behind it, up to the next one."""
    parts = re.split(r"(\S+):", text)
    return {name: tuple(names.split()) for name, names in zip(parts[1::2], parts[2::2], strict=True)}


# What each room may import of tonearm. A module is in the room of the longest name here that it begins with.
# The rooms of a decoder process come from the one that imports most to those that import only core and what is said
# between the processes. Blocks and loudness are mathematics of sound: the listener measures with them, too. `serve`
# loads the cluster and the voice connections where there are any.
MAY_IMPORT: Final = _table("""
    core: core
    protocol: protocol core
    description: description protocol core
    sandbox: sandbox
    decoder: decoder.messages decoder.message_coding core sandbox.report
    decoder.pool: decoder.pool decoder.messages decoder.message_coding sandbox.report core.admission core.call_later
        core.figures core.frame
    decoder.opening: decoder.opening decoder.pool decoder.messages core
    decoder.session: decoder.session decoder.opening protocol.framing decoder.pool decoder.messages core
    worker: worker decoder.messages decoder.message_coding core sandbox
    worker.rendering: worker.rendering worker.packets worker.mixing worker.sources worker.filters decoder.messages core
    worker.packets: worker.packets worker.mixing.voices worker.sources.packet_store worker.sources.pcm_store
        worker.media.opus_format worker.filters decoder.messages core
    worker.mixing: worker.mixing worker.sources.pcm_store worker.filters decoder.messages core
    worker.sources: worker.sources worker.media worker.reading worker.filters worker.memory decoder.messages core
    worker.media: worker.media worker.reading worker.filters.blocks worker.filters.chain core
    worker.reading: worker.reading decoder.messages decoder.message_coding core
    worker.filters: worker.filters core
    sources: sources core
    sources.resolver: sources core sandbox
    player: player decoder protocol.framing core
    player.clients: player.clients protocol.framing core
    node.parts: node.load node.quarantine node.saving node.file_saving node.state_file player.clients.event_feed
        player.clock player.player player.player_services decoder.opening.track_loader decoder.pool sources.opener
        sandbox.report core.call_later core.library core.snapshot core.voice
    node.tracks: decoder.opening.track_loader sources protocol.wire_model core
    node.files: node.tracks decoder.opening.track_loader sources.library sources.opener sources.uploads core
    node.garbage_collection: core.call_later
    node.load: core
    node.quarantine: sources core
    node.queue_rows: core
    node.changes: node.queue_rows protocol.saved_state core
    node.state_file: node.changes node.queue_rows protocol.wire_model protocol.saved_state core
    node.saving: node.changes core
    node.file_saving: node.changes node.saving node.state_file protocol.saved_state sources.detached_threads core
    cluster: cluster node.changes node.node node.saving player.player player.clients player.handle server protocol
        description core
    node: node player decoder protocol.framing protocol.wire_model core
    dashboard: dashboard core.source_uri core.request_rates process
    dashboard.page_files: protocol.filters protocol.wire_model core
    server: server dashboard.page_files node.node node.tracks player.handle protocol.framing protocol description core
    client: client protocol core
    bots: bots client
    discord: bots
    disnake: bots
    nextcord: bots
    voice: voice.voices voice.connection voice.gateway voice.discovery voice.media voice.messages player.player
        decoder.pool.starting protocol.framing sources.guard sandbox.report core
    voice.process: voice.process voice.messages decoder.messages sandbox core
    config: config core.source_uri core.policy core.errors core.printable core.service_links core.cluster core.voice
    process: core.printable
    other_nodes:
    serve: config cluster.cluster cluster.engine other_nodes process server node.node node.parts node.state_file sources
        core sandbox.report
    commands: commands client config core process sandbox.report
    commands.listen: commands.listen_display commands.running commands.sounding client core process
    commands.listen_display: commands.running worker.filters.blocks worker.filters.loudness client core
    cli: config serve commands dashboard.command process
    __main__: cli
""")

# Libraries that only some rooms may know: all that are imported and not of the standard library.
ONLY_IN: Final = _table("""
    av: worker.media worker.packets worker.process
    aiohttp: sources server client dashboard cluster.answers cluster.forwarding cluster.moving cluster.relays
        cluster.together voice.gateway
    click: cli
    cryptography: voice.process.rtp
    dave: voice.process.dave
    discord: bots.discord
    disnake: bots.disnake
    nextcord: bots.nextcord
    msgspec: decoder.messages decoder.message_coding cluster.forwarding cluster.together server.json_pieces
        sources.mirrors.requests voice.messages
    nacl: voice.process.rtp
    nats: cluster.engine
    multidict: server dashboard.page_server
    numpy: worker.media worker.filters worker.mixing worker.packets worker.rendering commands.listen_display
    prometheus_client: protocol.metrics
    pydantic: protocol description client commands server.bodies config
    pydantic_core: protocol.wire_model server.bodies
    re2: config.patterns
    rich: commands
    uvloop: serve
    yarl: sources client dashboard.passing_on cluster.forwarding cluster.membership
    yt_dlp: sources.resolver.extraction sources.resolver.node_requests sources.resolver.challenges
        sources.resolver.javascript
    yt_dlp_ejs: sources.resolver.javascript
    _quickjs: sources.resolver.javascript
""")

# Libraries that are distributed under another name than they are imported by.
DISTRIBUTION: Final = _table("""
    dave: dave.py    nacl: pynacl    nats: nats_py    re2: google_re2    _quickjs: quickjs_ng
    discord: discord.py[voice]    disnake: disnake[voice]    nextcord: nextcord[voice]
""")

# Rules are decided from what is given: no input and output, no clock, no chance, nothing that waits.
NOT_IN_CORE: Final = _table("""
    core: asyncio concurrent ctypes glob http io logging mmap multiprocessing os pathlib queue random sched secrets
        select selectors shutil signal socket ssl subprocess tempfile threading time uuid
""")["core"]


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


def test_a_library_is_known_in_its_rooms_only_and_each_has_some() -> None:
    wrong = [
        f"{name} imports {library}"
        for library, rooms in ONLY_IN.items()
        for name in MODULES
        if library in foreign_imports(name) and not is_in(name, rooms)
    ]
    assert not wrong
    foreign = {library for name in MODULES for library in foreign_imports(name)} - sys.stdlib_module_names
    assert foreign == set(ONLY_IN)


def test_every_library_that_is_imported_is_declared() -> None:
    """What another dependency brings along today may be gone with its next version."""
    project = tomllib.loads(SOURCE.parent.parent.joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    declared = {re.split(r"[<>=;\s]", line, maxsplit=1)[0].replace("-", "_") for line in lines}
    assert {DISTRIBUTION.get(library, (library,))[0] for library in ONLY_IN} <= declared


def test_the_rules_use_the_standard_library_only_and_nothing_of_it_that_acts() -> None:
    for name in MODULES:
        if is_in(name, ("core",)):
            foreign = foreign_imports(name)
            assert foreign <= sys.stdlib_module_names, name
            assert not foreign & {*NOT_IN_CORE}, name


def test_no_module_leads_back_to_itself() -> None:
    graph = {name: our_imports(name) & set(MODULES) - {name} for name in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"imports in a circle: {' -> '.join(error.args[1])}")


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

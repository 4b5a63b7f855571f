"""A state that cannot be trusted is set aside or refused with a clear message, or costs the players that are wrong in
it; the node never fails by it, and what it makes of the file can be read again.

40 files by default; `make fuzz` asks for more and others, and `SEED` for the same ones again.
"""

import json
import os
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from tests.support.examples import SEED
from tests.support.playback_log import playing_player
from tests.support.tracks import make_track
from tonearm.core.playback import Playback
from tonearm.core.snapshot import Resume
from tonearm.node.changes import Change
from tonearm.node.file_saving import FileSaving
from tonearm.node.state_file import StateFile, StateFileError

_TEXTS: Final = ("", "{", "[]", "null", "x" * 100_000, "[" * 50_000, '{"a":' * 50_000, '"\\ud800"', "\0", "NaN")
_VALUES: Final = (*_TEXTS, None, b"\xff\xfe{", 2**63 - 1, -(2**63), 1e308, -1, 0)


_DEEP: Final = json.loads("[" * 400 + "]" * 400)  # deeper than pydantic writes
_JSON: Final[tuple[Any, ...]] = (
    *(None, True, -1, 0, 2**31, 2**53, 2**70, float("inf"), float("nan"), 1e-300),
    *("", "p", "x" * 70_000, "\ud800", "\0", "file:///etc/passwd", "http://[::1", [], {}, [None], {"": {}}, _DEEP),
)
_COLUMNS: Final = (
    *("node.alive_at_ms", "node.unready_starts", "players.id", "players.place", "players.head"),
    *("tracks.player", "tracks.id", "tracks.track", "queues.player", "queues.number", "queues.ids"),
)
_ENDLESS: Final = (
    "DROP TABLE players; CREATE VIEW players AS WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more) "
    "SELECT n AS id, n AS place, '{}' AS head FROM more"
)
_STATEMENTS: Final = (
    "DROP TABLE tracks",
    "DELETE FROM node",
    "DELETE FROM tracks",
    "ALTER TABLE players RENAME COLUMN head TO tail",
    "CREATE TRIGGER more AFTER UPDATE ON node BEGIN DELETE FROM players; END",
    _ENDLESS,
    "PRAGMA user_version = 3",
    "PRAGMA application_id = 7",
    "UPDATE players SET head = CAST(x'7bff22' AS TEXT)",
    "UPDATE players SET id = CAST(x'ff' AS TEXT) WHERE place = 0",
    "INSERT INTO players SELECT 'copy', 7, head FROM players LIMIT 1",
    "UPDATE tracks SET player = 'nobody'",
)


def damaged_state(number: int, path: Path) -> str:
    """Makes file `number` of an endless row at `path`. Returns in words what is wrong with it."""
    dice = random.Random(number)
    _write(path)
    how = dice.choice((_damage_bytes, _damage_bytes, _damage_values, _damage_json, _damage_json, _damage_structure))
    return how(path, dice)


def _write(path: Path) -> None:
    """A player with a queue and a history, one that has nothing, one with metadata."""
    log = playing_player("abcde")
    log.do(log.playback.skip())
    idle, other = Playback("idle", None, {}), Playback("other", make_track("z"), {"of": ["other"]})
    file = StateFile(path)
    file.open()
    snapshots = [one.snapshot() for one in (log.playback, idle, other)]
    file.write([Change(one.player_id, one, 5_000, place) for place, one in enumerate(snapshots)], 6_000)
    file.close()


def _damage_bytes(path: Path, dice: random.Random) -> str:
    data = bytearray(path.read_bytes())
    at = dice.randrange(len(data))
    changes: dict[str, Callable[[], bytes]] = {
        "bits flipped": lambda: _flipped(data, dice),
        "head flipped": lambda: _flipped(data[:100], dice) + bytes(data[100:]),
        "cut": lambda: bytes(data[:at]),
        "zeros": lambda: bytes(data[:at]) + bytes(len(data) - at),
        "random": lambda: dice.randbytes(at),
        "longer": lambda: bytes(data) + dice.randbytes(at),
        "pages in another order": lambda: bytes(data[:4096]) + data[8192:12288] + data[4096:8192] + data[12288:],
    }
    name = dice.choice([*changes])
    path.write_bytes(changes[name]())
    if dice.random() < 0.3:
        Path(f"{path}-wal").write_bytes(dice.randbytes(dice.randrange(9_000)))
    return name


def _flipped(data: bytearray, dice: random.Random) -> bytes:
    for _ in range(dice.randint(1, 40)):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(data)


def _damage_structure(path: Path, dice: random.Random) -> str:
    statements = dice.choice(_STATEMENTS)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(statements)
    return statements


def _damage_values(path: Path, dice: random.Random) -> str:
    place, value = dice.choice(_COLUMNS), dice.choice(_VALUES)
    table, _, column = place.partition(".")
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (value,))  # noqa: S608
    return f"{place} = {value!r:.60}"


def _damage_json(path: Path, dice: random.Random) -> str:
    table, column = dice.choice((("players", "head"), ("tracks", "track"), ("queues", "ids")))
    with closing(sqlite3.connect(path)) as database, database:
        rows = [text for (text,) in database.execute(f"SELECT {column} FROM {table}")]  # noqa: S608
        row = dice.choice(rows)
        value = json.loads(row)
        done = _changed_somewhere(value, dice)
        database.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (json.dumps(value), row))  # noqa: S608
    return f"{table}: {done}"


def _changed_somewhere(value: Any, dice: random.Random) -> str:
    """Changes one place of an object, however deep."""
    key = dice.choice([*value]) if isinstance(value, dict) else dice.randrange(len(value))
    inner = value[key]
    if isinstance(inner, dict | list) and inner and dice.random() < 0.7:
        return f"{key}.{_changed_somewhere(inner, dice)}"
    if isinstance(value, dict) and dice.random() < 0.2:
        del value[key]
        return f"{key} is missing"
    value[key] = dice.choice(_JSON)
    return f"{key} = {value[key]!r:.60}"


FILES = int(os.environ.get("FUZZ_STATES") or 40)
NOW_MS = 60_000


async def outcome(path: Path) -> tuple[str, list[str]]:
    """What a node makes of the file, in a word, and the ids of the players that it has then."""
    players: dict[str, Playback] = {}
    saving = FileSaving(StateFile(path), players, lambda: NOW_MS)
    try:
        await saving.open()
        found = await saving.read(Resume.PLAYING)
    except StateFileError as refusal:
        message = str(refusal)
        assert str(path) in message, message
        assert message.isprintable(), message
        assert len(message) < 400 + len(str(path)), message
        return "refused", []
    for snapshot in found:
        assert snapshot.player_id not in players
        players[snapshot.player_id] = Playback(snapshot.player_id, None, {}, snapshot=snapshot)
        players[snapshot.player_id].begin()
    await saving.keep()
    assert not saving.trouble
    degraded = saving.degraded
    await saving.stop()
    assert len(degraded) < 1000 + len(str(path))
    if "players began anew" in degraded:
        assert not players
        return "set aside", []
    return "read", [*players]


async def test_no_file_ends_the_node_and_each_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outcomes = Counter[str]()
    for number in range(SEED, SEED + FILES):
        caplog.clear()
        with TemporaryDirectory(dir=tmp_path) as folder:
            path = Path(folder, "state.sqlite")
            damage = damaged_state(number, path)
            try:
                name, ids = await outcome(path)
                again = await outcome(path)
            except BaseException as error:
                raise AssertionError(f"the state with the seed {number} ({damage}): {error!r}") from error
        expected = ("refused", []) if name == "refused" else ("read", ids)
        assert again == expected, (number, damage)
        for record in caplog.records:
            assert record.exc_info is None, (number, damage, record.getMessage())
            assert len(record.getMessage()) < 1000, (number, damage)
        outcomes[name] += 1
    print(f"{FILES} files of the state from seed {SEED}: {outcomes}")  # noqa: T201 - of a long run

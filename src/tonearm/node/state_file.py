"""The state file, in which players survive a restart: one SQLite database, written by one node at a time.

Every call blocks. A change is in the file when `write` returns: a killed node loses none of it, and a machine that
loses its power at most the last ones, for the disk is not waited for (WAL with synchronous NORMAL).
"""

import contextlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from tonearm.core.metadata import Json, JsonObject, is_player_id
from tonearm.core.printable import printable
from tonearm.node.changes import Change, Edit, Written, edit_of
from tonearm.node.queue_rows import ROWS, RowForm
from tonearm.protocol.saved_state import queue_out, saved_track_out, state_head_out
from tonearm.protocol.wire_model import json_text

DEATHS_BEFORE_SET_ASIDE: Final = 3
SIGN_EVERY_MS: Final = 1_000  # at most
LONG_LOG_BYTES: Final = 16 * 1024 * 1024
_LOG: Final = "-wal"  # what sqlite adds to the file's name for its log
_RECORDS: Final = "-records"
_ENDINGS: Final = ("", _LOG, _RECORDS)  # of what is set aside
_APPLICATION_ID: Final = 0x746F6E65  # "tone", so that `file` can tell it

_NODE_TABLE: Final = (
    "CREATE TABLE node (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), alive_at_ms INTEGER, unready_starts INTEGER)"
)
_TABLES: Final = (
    _NODE_TABLE,
    "CREATE TABLE players (id TEXT PRIMARY KEY, place INTEGER, head TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE tracks (player TEXT, id TEXT, track TEXT NOT NULL, PRIMARY KEY (player, id)) WITHOUT ROWID",
    "CREATE TABLE queues (player TEXT, number INTEGER, ids TEXT NOT NULL, PRIMARY KEY (player, number)) WITHOUT ROWID",
)
_FORM: Final = 2  # of these tables; in the first form the heads of players had the queues

_T = TypeVar("_T")
_File: TypeAlias = tuple[int, int]  # identifies a file, whatever its name: its device and its inode
_Row: TypeAlias = tuple[str | int, ...]
_Statement: TypeAlias = tuple[str, _Row]
_REMOVE_PLAYERS: Final = "DELETE FROM players WHERE id IN {}"
_EMPTY_PLAYERS: Final = ("DELETE FROM tracks WHERE player IN {}", "DELETE FROM queues WHERE player IN {}")
_REMOVE_TRACKS: Final = "DELETE FROM tracks WHERE player = ? AND id IN {}"
_REMOVE_QUEUES: Final = "DELETE FROM queues WHERE player = ? AND number IN {}"
_PUT_QUEUES: Final = "INSERT OR REPLACE INTO queues VALUES {}"
_PUT_TRACKS: Final = "INSERT OR REPLACE INTO tracks VALUES {}"
_PUT_PLAYERS: Final = "INSERT OR REPLACE INTO players VALUES {}"
_FIND_UNFIT: Final = "SELECT id FROM main.players WHERE NOT is_id(typeof(id), CAST(id AS BLOB))"
_COPY_UNFIT: Final = "CREATE TABLE aside.{0} AS SELECT * FROM main.{0} WHERE {1} IN ({2})"
_REMOVE_UNFIT: Final = "DELETE FROM main.{0} WHERE {1} IN ({2})"
_OF_PLAYERS: Final = (("tracks", "player"), ("queues", "player"), ("players", "id"))
_ROWS_A_STATEMENT: Final = 50
_KEPT_STATEMENTS: Final = 16  # prepared statements: each number of rows needs another one, of up to 25 kB


log = logging.getLogger(__name__)


class StateFileError(Exception):
    """The file cannot be used. The message says why and what to do."""


@dataclass(frozen=True, slots=True)
class UnfitRecords:
    """Records under ids that no player may have, and the name of the file in which they are now."""

    names: Sequence[str]
    kept_as: str


class StateFile:
    """From `open` to `close`. `path` may be a link: the file and its log are where it leads. `connect` opens it as
    `sqlite3.connect` does."""

    def __init__(
        self, path: Path, *, connect: Callable[..., sqlite3.Connection] = sqlite3.connect, rows: RowForm = ROWS
    ) -> None:
        self._given_path = path
        self._connect = connect
        self._rows = rows
        self._locate()
        self.set_aside = ""  # which older file was set aside, and why; empty: none was
        self.is_long = False  # the log is so long that it should be shortened now
        self._database: sqlite3.Connection | None = None
        self._written: dict[str, Written] = {}
        self._sign_ms: int | None = None  # the last sign of life that was written
        self._used: tuple[_File | None, ...] = ()  # the file and its log, as they were opened

    def open(self) -> None:
        """Opens the file or makes it.

        A damaged file, and one that nodes died again and again while they read it, is renamed, and a new one
        begun. Of a damaged log SQLite takes what is before the damage. Raises `StateFileError` when there is nowhere to
        write, another node uses the file, or a newer one made it.
        """
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                self._let_go()
                raise StateFileError(self._why_not(error)) from error
            self._put_away(f"it is damaged ({error})")
        except UnicodeDecodeError as error:  # in place of an error of sqlite's that quotes damaged text
            self._put_away(f"it is damaged ({error.object.decode(errors='replace')})")
        else:
            if self._unready_starts() >= DEATHS_BEFORE_SET_ASIDE:
                with contextlib.suppress(sqlite3.Error):  # a user who renames the file back may try again
                    self.prove()
                self._put_away(f"the node died {DEATHS_BEFORE_SET_ASIDE} times while it read it")

    def begin(self) -> None:
        """Counts the start of a node that is about to restore the players."""
        self._execute("UPDATE node SET unready_starts = unready_starts + 1")

    def prove(self) -> None:
        """The node has restored the players, or ends in order: its start has not failed. Raises `sqlite3.Error`."""
        self._open_database.execute("UPDATE node SET unready_starts = 0")

    def alive_at_ms(self) -> int:
        """The time of day at which the node that wrote the file was last known to live; 0: never."""
        ((alive_at_ms,),) = self._open_database.execute("SELECT alive_at_ms FROM node")
        return int(alive_at_ms)

    def put_unfit_away(self) -> UnfitRecords | None:
        """Moves records whose ids no player may have into a file beside this one: no new player could take their place.
        None: there were none. Raises `StateFileError`."""
        database = self._open_database
        database.create_function("is_id", 2, _is_id, deterministic=True)
        found = database.execute(_FIND_UNFIT).fetchall()
        if not found:
            return None
        kept = Path(f"{self._set_aside_path()}{_RECORDS}")
        try:
            with contextlib.suppress(OSError):  # sqlite says it better
                kept.touch(0o600)
            database.execute("ATTACH ? AS aside", (str(kept),))
            for table, column in _OF_PLAYERS:
                database.execute(_COPY_UNFIT.format(table, column, _FIND_UNFIT))
            database.execute("DETACH aside")
            with self._transaction():
                for table, column in _OF_PLAYERS:
                    database.execute(_REMOVE_UNFIT.format(table, column, _FIND_UNFIT))
        except sqlite3.OperationalError as error:
            self._let_go()
            raise StateFileError(self._why_not(error)) from error
        return UnfitRecords([name if isinstance(name, str) else repr(name) for (name,) in found], kept.name)

    def players(self) -> Iterator[tuple[str, JsonObject]]:
        """Every player's id and its state, in the order of their creation; a state that cannot be read is empty. To be
        called after `put_unfit_away`."""
        database = self._open_database
        for name, head in database.execute("SELECT id, head FROM players ORDER BY place").fetchall():
            rows = database.execute("SELECT track FROM tracks WHERE player = ?", (name,)).fetchall()
            queues = database.execute("SELECT ids FROM queues WHERE player = ? ORDER BY number", (name,)).fetchall()
            try:
                queue = [track_id for (ids,) in queues for track_id in json.loads(ids)]
                # In the first form of the file the head has the queue.
                yield name, {"queue": queue, **json.loads(head), "tracks": [json.loads(track) for (track,) in rows]}
            except (ValueError, TypeError, RecursionError):
                yield name, {}

    def write(self, changes: Sequence[Change], now_ms: int | None) -> None:
        """Writes all of the changes or none, and a sign of life when one is due (`now_ms` None: none is). What was
        removed meanwhile is put back first, with all that it held. On a full disk the log may be what fills it, so that
        is shortened. Raises `sqlite3.Error` and `OSError`."""
        if self._parts_in_place() != self._used:  # it takes 7 µs
            self._put_back()
        sign_ms = now_ms
        if now_ms is not None and changes and self._sign_ms is not None and abs(now_ms - self._sign_ms) < SIGN_EVERY_MS:
            sign_ms = None
        edits = [
            edit_of(change, change.snapshot, self._written.get(change.player_id), self._rows)
            for change in changes
            if change.snapshot is not None
        ]
        statements = [*self._statements(changes, edits)]
        if sign_ms is not None:
            statements.append(("UPDATE node SET alive_at_ms = ?", (sign_ms,)))
        try:
            self._write(statements)
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_FULL:  # errors of the module's own have none
                raise
            self._empty_log()
            self._write(statements)
        for change in changes:
            if change.snapshot is None:
                self._written.pop(change.player_id, None)
        for edit in edits:
            player_id = edit.change.player_id
            self._written[player_id] = edit.done(self._written.get(player_id))
        self._sign_ms = self._sign_ms if sign_ms is None else sign_ms
        with contextlib.suppress(OSError):
            self.is_long = self._log_path.stat().st_size > LONG_LOG_BYTES

    def shorten(self, now_ms: int) -> None:
        """Moves what was written from the log into the file, for which the disk is waited for. Raises what `write`
        raises.

        So is it for the first write of a new log: that is done here, too, so that no change waits for it.
        """
        self._empty_log()
        self.write((), now_ms)

    @property
    def is_open(self) -> bool:
        return self._database is not None

    def close(self) -> None:
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._empty_log()
        self._let_go()

    def _write(self, statements: Sequence[_Statement]) -> None:
        # Each statement waits for the interpreter's lock, up to 5 ms on a busy node. So there are few of them, and one
        # alone is its own transaction.
        if len(statements) == 1:
            self._open_database.execute(*statements[0])
        else:
            with self._transaction() as database:
                for statement in statements:
                    database.execute(*statement)

    def _empty_log(self) -> None:
        """Moves what is in the log into the file, and gives its room back."""
        self._open_database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _statements(self, changes: Sequence[Change], edits: Sequence[Edit]) -> Iterator[_Statement]:
        """What brings the changes into the file; `edits` are those of players that are not gone."""
        gone = [change.player_id for change in changes if change.snapshot is None]
        # Whatever an earlier player or node left goes, too.
        emptied = [
            change.player_id for change in changes if change.snapshot is None or change.player_id not in self._written
        ]
        for edit in edits:
            player_id = edit.change.player_id
            for track_ids in _parts(edit.left):
                yield _REMOVE_TRACKS.format(_row(track_ids)), (player_id, *track_ids)
            for numbers in _parts(edit.left_rows):
                yield _REMOVE_QUEUES.format(_row(numbers)), (player_id, *numbers)
        for part in _parts(gone):
            yield _REMOVE_PLAYERS.format(_row(part)), (*part,)
        for part in _parts(emptied):
            for empty in _EMPTY_PLAYERS:
                yield empty.format(_row(part)), (*part,)
        tracks: list[_Row] = []
        queues: list[_Row] = []
        players: list[_Row] = []
        for edit in edits:
            change = edit.change
            tracks += [
                (change.player_id, track_id, _text(saved_track_out(edit.tracks[track_id]))) for track_id in edit.states
            ]
            queues += [(change.player_id, row.number, _text(queue_out(queue))) for row, queue in edit.new_rows]
            players.append((change.player_id, change.place, _text(state_head_out(edit.snapshot, change.taken_ms))))
        for statement, rows in ((_PUT_TRACKS, tracks), (_PUT_QUEUES, queues), (_PUT_PLAYERS, players)):
            for some in _parts(rows):
                yield statement.format(", ".join(map(_row, some))), (*chain.from_iterable(some),)

    def _locate(self) -> None:
        self.path = Path(os.path.realpath(self._given_path))
        self._log_path = Path(f"{self.path}{_LOG}")

    def _open(self) -> None:
        with contextlib.suppress(OSError):  # sqlite says it better
            self.path.touch(0o600)  # links of sources may hold what nobody else should know
        database = self._connect(
            self.path, timeout=0.5, isolation_level=None, check_same_thread=False, cached_statements=_KEPT_STATEMENTS
        )
        self._database = database
        database.text_factory = lambda text: text.decode("utf-8", "replace")  # damaged text must not end the reading
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL").fetchall()
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")
        self._empty_log()  # what a killed node left in the log
        database.execute("BEGIN IMMEDIATE")
        try:
            self._require_ours(database)
        except BaseException:
            database.execute("ROLLBACK")
            self._let_go()
            raise
        database.execute("COMMIT")
        _require_sound(database)
        self._used = self._parts_in_place()

    def _parts_in_place(self) -> tuple[_File | None, ...]:
        """Which files a restart would find as the state and as its log."""
        return _file_at(self._given_path), _file_at(self._log_path)

    def _put_back(self) -> None:
        """Writes all that the open file holds into a new one in its place. Raises `OSError` and `sqlite3.Error`.

        A file that is open can be read and written after its name is gone, but no restart would find it.
        """
        self._locate()
        path, old = self.path, self._open_database
        if any(now not in (None, used) for now, used in zip(self._parts_in_place(), self._used, strict=True)):
            raise FileExistsError("another file is in its place; move that away, and it is written there again")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy = path.with_name(f"{path.name}.new")
        copy.unlink(missing_ok=True)
        try:
            copy.touch(0o600)
            old.execute("VACUUM INTO ?", (str(copy),))
            with copy.open("rb") as file:
                os.fsync(file.fileno())  # otherwise its name may outlive a loss of power, and what is in it not
            self._log_path.unlink(missing_ok=True)  # before there is a file that sqlite would take it for the log of
            copy.rename(path)
        finally:
            copy.unlink(missing_ok=True)
        try:
            self._open()
        except BaseException:
            if self._database is not old:
                self._let_go()
                self._database = old
            path.unlink(missing_ok=True)  # so that the next try does not find another file in its place
            raise
        old.close()
        log.warning("%s disappeared while the node used it; its whole content is written there again", self.path)

    def _require_ours(self, database: sqlite3.Connection) -> None:
        ((version,),) = database.execute("PRAGMA user_version")
        ((application,),) = database.execute("PRAGMA application_id")
        if version > _FORM and application == _APPLICATION_ID:
            raise StateFileError(
                f"{self.path} was written by a newer tonearm (form {version}, this one knows {_FORM}); "
                "use that version, or set state.path to another file"
            )
        ((tables,),) = database.execute("SELECT count(*) FROM sqlite_schema")
        if application != _APPLICATION_ID:
            if tables:
                raise StateFileError(
                    f"{self.path} is a database of another program; set state.path to a file of its own"
                )
            for statement in (*_TABLES, "INSERT INTO node VALUES (1, 0, 0)"):
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        elif version == 1:
            database.execute(_TABLES[-1])
        if version != _FORM:
            database.execute(f"PRAGMA user_version = {_FORM}")

    def _put_away(self, why: str) -> None:
        """Renames the file and begins a new one."""
        why = printable(why)  # sqlite quotes what is damaged
        self._let_go()
        kept = self._set_aside_path()
        try:
            for ending in ("", _LOG):  # a kill in between leaves a log without its file, which is noticed
                if (part := Path(f"{self.path}{ending}")).exists():
                    part.rename(f"{kept}{ending}")
            self._open()
        except (OSError, sqlite3.Error) as error:
            self._let_go()
            raise StateFileError(f"{self.path}: {why}, and it cannot be set aside: {error}; move it away") from error
        self.set_aside = f"The state in {self.path} was set aside as {kept.name}, for {why}; players began anew."

    def _set_aside_path(self) -> Path:
        """A name that no file has that was set aside before."""
        name = f"{self.path.name}.set-aside-{time.strftime('%Y%m%d-%H%M%S')}"
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        paths = map(self.path.with_name, names)
        return next(path for path in paths if not any(Path(f"{path}{ending}").exists() for ending in _ENDINGS))

    def _why_not(self, error: sqlite3.OperationalError) -> str:
        if "locked" in str(error):
            return f"{self.path} is in use by another node; set state.path to a file for each node"
        if "full" in str(error):
            return f"{self.path} cannot be written ({error}); make room on its disk, or set state.path to another place"
        if not self.path.parent.is_dir():
            return f"{self.path} cannot be written: there is no folder {self.path.parent}; make it, or set state.path"
        return (
            f"{self.path} cannot be written ({error}); give the node's user the right to write it and its folder, "
            "or set state.path to another place"
        )

    def _unready_starts(self) -> int:
        ((starts,),) = self._open_database.execute("SELECT unready_starts FROM node")
        return int(starts)

    def _execute(self, statement: str) -> None:
        try:
            with self._transaction() as database:
                database.execute(statement)
        except sqlite3.OperationalError as error:
            self._let_go()
            raise StateFileError(self._why_not(error)) from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        database = self._open_database
        database.execute("BEGIN IMMEDIATE")
        try:
            yield database
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise

    @property
    def _open_database(self) -> sqlite3.Connection:
        assert self._database is not None, "the file is not open"
        return self._database

    def _let_go(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _file_at(path: Path) -> _File | None:
    """None: there is no file of that name."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _require_sound(database: sqlite3.Connection) -> None:
    """Raises `sqlite3.DatabaseError` for a file of which not everything is where it should be."""
    ((verdict,),) = database.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    if {sql for (sql,) in database.execute("SELECT sql FROM sqlite_schema")} != {*_TABLES}:
        raise sqlite3.DatabaseError("its tables are not those of a state")
    types = database.execute("SELECT typeof(alive_at_ms), typeof(unready_starts) FROM node").fetchall()
    if types != [("integer", "integer")]:
        raise sqlite3.DatabaseError("it does not say when a node used it last")


def _text(value: Json) -> str:
    return json_text(value).decode()


def _is_id(kind: str, content: bytes) -> bool:
    """Whether a value in the file is an id that a player may have; `content` is what is stored, of whatever kind."""
    return kind == "text" and is_player_id(content.decode(errors="replace"))


def _parts(rows: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (rows[first : first + _ROWS_A_STATEMENT] for first in range(0, len(rows), _ROWS_A_STATEMENT))


def _row(values: Sequence[object]) -> str:
    """A place for each value of a row, or of a list."""
    return f"({', '.join('?' * len(values))})"

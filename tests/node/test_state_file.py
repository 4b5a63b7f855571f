"""The file that players survive a restart in, and what becomes of files that cannot be used."""

import contextlib
import itertools
import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.support.examples import SEED
from tests.support.planted_faults import disk_full
from tests.support.playback_log import playing_player
from tests.support.saved import state_out
from tests.support.tracks import make_track
from tonearm.core.errors import RequestError
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback import Playback
from tonearm.core.playback_state import Outcome
from tonearm.core.snapshot import PlayerSnapshot
from tonearm.core.track import Track
from tonearm.node.changes import Change
from tonearm.node.queue_rows import RowForm
from tonearm.node.state_file import LONG_LOG_BYTES, StateFile, StateFileError
from tonearm.protocol.saved_state import read_state, tracks_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite"


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[StateFile]:
    file = StateFile(path, **options)
    file.open()
    try:
        yield file
    finally:
        file.close()


def player(player_id: str, *names: str) -> Playback:
    first, *others = map(make_track, names)
    playback = Playback(player_id, first, {"of": player_id})
    playback.begin()
    playback.enqueue(*others)
    return playback


def write(file: StateFile, *snapshots: PlayerSnapshot) -> None:
    file.write([Change(one.player_id, one, 5, place) for place, one in enumerate(snapshots)], 7)


def held(file: StateFile) -> list[PlayerSnapshot]:
    return [read_state(value)[1] for _, value in file.players()]


def ids(snapshot: PlayerSnapshot) -> str:
    assert snapshot.current is not None
    return snapshot.current.track.id + "".join(queued.track.id for queued in snapshot.queue)


def test_players_come_back_in_their_order_as_they_were(path: Path, tmp_path: Path) -> None:
    players = [player("z", "a", "b"), player("a", "c")]
    with opened(path) as file:
        write(file, *(one.snapshot() for one in players))
        assert [part.stat().st_mode & 0o777 for part in sorted(tmp_path.iterdir())] == [0o600, 0o600]
    with opened(path) as file:
        assert file.alive_at_ms() == 7
        again = held(file)
        assert [(one.player_id, ids(one)) for one in again] == [("z", "ab"), ("a", "c")]
        assert [state_out(one, 5) for one in again] == [state_out(one.snapshot(), 5) for one in players]
        file.write([Change("z", None, 5, 0)], 8)
    with opened(path) as file:
        assert [one.player_id for one in held(file)] == ["a"]


def edited(player: Playback, dice: random.Random, names: Iterator[int]) -> Outcome:
    """The player after any edit of its queue."""
    waiting = [track.id for track in player.queue]
    one, place = dice.choice(waiting or [""]), dice.randrange(len(waiting) + 1)

    def new(most: int) -> list[Track]:
        return [make_track(f"n{next(names)}") for _ in range(dice.randrange(1, most))]

    edits: list[Callable[[], Outcome]] = [
        lambda: player.enqueue(*new(2)),
        lambda: player.enqueue(*new(30), index=place),
        lambda: player.enqueue(*new(2), index=place),
        lambda: player.skip(one),
        *(player.skip, player.skip, player.skip, player.previous),
        lambda: player.remove(one),
        lambda: player.move(one, place),
        lambda: player.shuffle(dice.sample(range(len(waiting)), len(waiting))),
        lambda: player.set_loop(dice.choice([*LoopMode])),
        lambda: player.replace(*new(3)),
        lambda: player.clear_queue() if dice.random() < 0.1 else player.pause(),
    ]
    return dice.choice(edits)()


def test_whatever_becomes_of_a_queue_is_in_the_file(path: Path) -> None:
    """Rows are short and their numbers few, so that all that may become of these happens."""
    dice, log, names = random.Random(SEED), playing_player("a"), itertools.count()
    player = log.playback
    with opened(path, rows=RowForm(most_ids=4, apart=4)) as file:
        for _ in range(300):
            for _ in range(dice.randrange(1, 3)):
                with contextlib.suppress(RequestError):
                    log.do(edited(player, dice, names))
            touched = {track.id for track in player.queue if dice.random() < 0.05}
            for track_id in touched:
                log.do(player.tags_read(track_id, None))
            file.write([Change("player", player.snapshot(), 5, 0, touched)], None)
            (again,) = held(file)
            assert with_tracks_by_id(again) == with_tracks_by_id(player.snapshot())
    with closing(sqlite3.connect(path)) as database:
        ((rows,),) = database.execute("SELECT count(*) FROM queues")
        assert rows <= len(player.queue)
        assert {row[0] for row in database.execute("SELECT id FROM tracks")} == tracks_of(player.snapshot()).keys()


def with_tracks_by_id(snapshot: PlayerSnapshot) -> dict[str, Any]:
    out: dict[str, Any] = state_out(snapshot, 5)
    return out | {"tracks": dict(zip(tracks_of(snapshot), out["tracks"], strict=True))}


def test_a_long_queue_comes_back_whole_and_a_track_more_in_it_is_not_much_to_write(path: Path) -> None:
    log = playing_player("a")
    log.do(log.playback.enqueue(*(make_track(f"{number}") for number in range(9_920))))
    with opened(path) as file:
        write(file, log.playback.snapshot())
        for index in (None, 0, 5_000):
            before = log_of(path).stat().st_size
            log.do(log.playback.enqueue(make_track(f"new{index}"), index=index))
            write(file, log.playback.snapshot())
            assert log_of(path).stat().st_size - before < 80_000  # it was 600,000 with all ids
        (found,) = held(file)
        assert ids(found) == ids(log.playback.snapshot())


def test_a_file_of_the_first_form_is_read_and_goes_over_to_the_second(path: Path) -> None:
    one = player("p", "a", "b", "c")
    with opened(path) as file:
        write(file, one.snapshot())
    with closing(sqlite3.connect(path)) as database:
        head = json.dumps({key: value for key, value in state_out(one.snapshot(), 5).items() if key != "tracks"})
        database.execute("UPDATE players SET head = ?", (head,))
        database.execute("DROP TABLE queues")
        database.execute("PRAGMA user_version = 1")
        database.commit()
    for _ in range(2):
        with opened(path) as file:
            assert file.set_aside == ""
            (again,) = held(file)
            assert ids(again) == "abc"
            write(file, again)


def test_what_failed_to_be_written_is_not_taken_for_written(path: Path) -> None:
    one = player("p", "a", "b")
    with opened(path) as file:
        broken = Change("q", player("q", "x").snapshot(), 5, "no number")  # type: ignore[arg-type]
        with pytest.raises(sqlite3.Error):
            file.write([Change("p", one.snapshot(), 5, 0), Change(None, broken.snapshot, 5, 0)], 7)  # type: ignore[arg-type]
        assert held(file) == []
        write(file, one.snapshot())
    with opened(path) as file:
        assert [ids(found) for found in held(file)] == ["ab"]


def log_of(path: Path) -> Path:
    return path.with_name("state.sqlite-wal")


def remove_all_in(folder: Path) -> None:
    for part in folder.iterdir():
        part.unlink()


REMOVALS: tuple[Callable[[Path], object], ...] = (
    Path.unlink,
    lambda path: log_of(path).unlink(),
    lambda path: shutil.rmtree(path.parent),
    lambda path: remove_all_in(path.parent),
    lambda path: path.parent.rename(path.parent.with_name(f"moved-{len([*path.parent.parent.iterdir()])}")),
)


@pytest.mark.parametrize("remove", REMOVALS, ids=["the file", "its log", "its folder", "both", "the folder's name"])
def test_what_is_removed_while_it_is_used_is_there_again_with_all_that_it_held(
    tmp_path: Path, remove: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "folder" / "state.sqlite"
    path.parent.mkdir()
    with opened(path) as file:
        write(file, player("a", "x", "y").snapshot(), player("gone", "z").snapshot())
        file.shorten(7)
        write(file, player("b", "x").snapshot())
        for number in range(2):  # the new one may be removed, too
            caplog.clear()
            remove(path)
            new = player(f"c{number}", "w").snapshot()
            file.write([Change(new.player_id, new, 5, 5), Change("gone", None, 5, 1)], 8)
            assert len(caplog.messages) == 1
            left = shutil.copytree(path.parent, tmp_path / "left") / path.name  # by a node that is killed now
            with opened(left) as found:
                assert {one.player_id for one in held(found)} == {"a", "b", *[f"c{one}" for one in range(number + 1)]}
                assert found.set_aside == ""
            shutil.rmtree(left.parent)
        assert [part.name for part in sorted(path.parent.iterdir())] == [path.name, log_of(path).name]
        assert {part.stat().st_mode & 0o777 for part in path.parent.iterdir()} == {0o600}
        caplog.clear()
        write(file, player("d", "x").snapshot())
        assert not caplog.messages
    with opened(path) as file:
        assert {one.player_id for one in held(file)} == {"a", "b", "c0", "c1", "d"}


def test_where_another_file_is_in_its_place_or_nothing_can_be_put_back_it_is_tried_again(path: Path) -> None:
    foreign = path.with_name("foreign")
    with opened(foreign) as file:
        write(file, player("p", "a").snapshot())
    content = foreign.read_bytes()
    connect = Mock(side_effect=sqlite3.connect)
    with opened(path, connect=connect) as file:
        write(file, player("a", "x").snapshot())
        path.unlink()
        foreign.rename(path)
        for _ in range(2):
            with pytest.raises(OSError, match="another file is in its place"):
                write(file, player("b", "y").snapshot())
        assert path.read_bytes() == content
        path.unlink()
        connect.side_effect = sqlite3.OperationalError("no descriptors")
        with pytest.raises(sqlite3.OperationalError, match="no descriptors"):
            write(file, player("b", "y").snapshot())
        connect.side_effect = sqlite3.connect
        with disk_full(), pytest.raises(OSError, match="No space left"):
            write(file, player("b", "y").snapshot())
        assert [*path.parent.iterdir()] == [], "what could not be written takes no room"
        write(file, player("b", "y").snapshot())
    with opened(path) as file:
        assert {one.player_id for one in held(file)} == {"a", "b"}


def test_a_log_is_long_from_its_limit_on_until_it_is_shortened(path: Path) -> None:
    large = player("a" * 1_000_000, "x")  # which is in its metadata
    with opened(path) as file:
        while not file.is_long:
            write(file, replace(large.snapshot(), player_id="a"))
            assert file.is_long is (log_of(path).stat().st_size > LONG_LOG_BYTES)
        file.shorten(7)
        assert not file.is_long


def test_a_disk_that_the_log_has_filled_has_room_again_when_it_is_shortened(path: Path) -> None:
    log, most_bytes = log_of(path), 100_000

    class SmallDisk(sqlite3.Connection):
        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            if sql.startswith(("INSERT", "UPDATE")) and log.exists() and log.stat().st_size > most_bytes:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            return super().execute(sql, parameters)

    with opened(path, connect=partial(sqlite3.connect, factory=SmallDisk)) as file:
        longest = 0
        for number in range(200):
            write(file, player("a", f"x{number}").snapshot())
            longest = max(longest, log.stat().st_size)
        assert most_bytes < longest < 2 * most_bytes
        most_bytes = -1
        with pytest.raises(sqlite3.OperationalError, match="full"):
            write(file, player("a", "y").snapshot())
        most_bytes = 100_000
        assert [ids(one) for one in held(file)] == ["x199"]


def test_a_link_and_the_file_behind_it_may_be_removed_and_damaged_files_are_set_aside_where_they_are(
    path: Path, tmp_path: Path
) -> None:
    link = tmp_path / "links" / "link.sqlite"
    link.parent.mkdir()
    link.symlink_to(path)
    with opened(link) as file:
        write(file, player("a", *(f"track {number}" for number in range(300))).snapshot())
        path.unlink()
        write(file, player("b", "y").snapshot())
    assert link.is_symlink()
    content = path.read_bytes()
    middle = content[:8192] + b"\xff" * 32768 + content[40960:]
    no_text = content.replace(b"tabletracks", b"tabletr\xe1cks")
    for damaged in (b"damaged" * 1000, middle, no_text):
        path.write_bytes(damaged)
        with opened(link) as file:
            assert "damaged" in file.set_aside
            assert "set aside" in file.set_aside
            assert held(file) == []
            write(file, player("p", "a").snapshot())
    assert link.is_symlink()
    assert {part.read_bytes() for part in path.parent.glob("*.set-aside-*")} == {b"damaged" * 1000, middle, no_text}
    with opened(link) as file:
        assert (file.set_aside, len(held(file))) == ("", 1)
        link.unlink()
        write(file, player("b", "y").snapshot())
    with opened(link) as file:
        assert {one.player_id for one in held(file)} == {"p", "b"}


def flipped(log: bytes, at: int) -> bytes:
    return log[:at] + bytes([log[at] ^ 1]) + log[at + 1 :]


@pytest.mark.parametrize(
    ("left_of", "found"),
    [
        (lambda log, r_at: b"no log" * 999, "p"),
        (lambda log, r_at: bytes(5_000), "p"),
        (lambda log, r_at: flipped(log, 32 + 10), "p"),  # in the head of a frame
        (lambda log, r_at: flipped(log, 32 + 1000), "p"),  # in its page
        (lambda log, r_at: flipped(log, r_at + 10), "pq"),
        (lambda log, r_at: flipped(log, r_at + 1000), "pq"),
        # What was on its way into the log when the node or its machine died.
        *((lambda log, r_at, cut=cut: log[:-cut], "pq") for cut in (1, 4100, 4130)),
        *((lambda log, r_at, zeros=zeros: log + bytes(zeros), "pqr") for zeros in (10, 100, 4120)),
    ],
)
def test_of_a_damaged_log_all_before_the_damage_is_taken(
    path: Path, tmp_path: Path, left_of: Callable[[bytes, int], bytes], found: str
) -> None:
    """There are p in the file, and q and r in its log, one after the other."""
    before = tmp_path / "before" / path.name
    before.parent.mkdir()
    with opened(before) as file:
        write(file, player("p", "a").snapshot())
    with opened(before) as file:
        write(file, player("q", "a").snapshot())
        r_at = log_of(before).stat().st_size
        write(file, player("r", "a").snapshot())
        shutil.copy(before, path)
        log_of(path).write_bytes(left_of(log_of(before).read_bytes(), r_at))
    with opened(path) as file:
        assert file.set_aside == ""
        assert [one.player_id for one in held(file)] == [*found]
        write(file, player("s", "a").snapshot())
    with opened(path) as file:
        assert [one.player_id for one in held(file)] == [*found, "s"]


def test_what_cannot_be_used_is_refused_with_the_reason(path: Path, tmp_path: Path) -> None:
    with opened(path), pytest.raises(StateFileError, match="in use by another node"):
        StateFile(path).open()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(StateFileError, match="newer tonearm"):
        StateFile(path).open()
    foreign = tmp_path / "mail.sqlite"
    with closing(sqlite3.connect(foreign)) as database, database:
        database.execute("CREATE TABLE mails (text)")
    for unfit, why in (
        (foreign, "another program"),
        (tmp_path / "missing" / "state.sqlite", "there is no folder"),
        (tmp_path, "cannot be written"),
    ):
        with pytest.raises(StateFileError, match=why):
            StateFile(unfit).open()

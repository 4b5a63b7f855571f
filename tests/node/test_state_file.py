"""The file that players survive a restart in, and what becomes of files that cannot be used."""

import contextlib
import itertools
import json
import os
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
from tonearm.core.errors import BadRequest, RequestError
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
        players[0].enqueue(make_track("d"))
        players[0].move("d", 0)
        write(file, players[0].snapshot())
    with opened(path) as file:
        assert file.alive_at_ms() == 7
        again = held(file)
        assert [(one.player_id, ids(one)) for one in again] == [("z", "adb"), ("a", "c")]
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


def test_a_file_whose_middle_is_damaged_is_set_aside(path: Path) -> None:
    with opened(path) as file:
        write(file, player("p", *(f"track {number}" for number in range(300))).snapshot())
    content = bytearray(path.read_bytes())
    content[8192:40960] = b"\xff" * 32768
    path.write_bytes(content)
    with opened(path) as file:
        assert "damaged" in file.set_aside


def test_a_file_whose_schema_is_no_text_is_set_aside(path: Path) -> None:
    with opened(path) as file:
        write(file, player("p", "a").snapshot())
    content = path.read_bytes()
    assert b"tabletracks" in content
    path.write_bytes(content.replace(b"tabletracks", b"tabletr\xe1cks"))
    with opened(path) as file:
        assert "set aside" in file.set_aside
        assert "damaged (malformed database schema" in file.set_aside


def log_of(path: Path) -> Path:
    return path.with_name("state.sqlite-wal")


def flip(log: Path, at: int) -> None:
    """Damages a bit of a log."""
    content = bytearray(log.read_bytes())
    content[at] ^= 1
    log.write_bytes(content)


def killed(path: Path) -> Path:
    """What a killed node leaves of a player in another folder: the file, and its log with what was written last."""
    folder = path.parent / "left"
    folder.mkdir()
    with opened(path) as file:
        write(file, player("p", "a").snapshot())
        for part in path.parent.glob("state.sqlite*"):
            shutil.copy(part, folder)
    return folder / path.name


@pytest.mark.parametrize("damage", [os.urandom, bytes], ids=["rubbish", "zeros"])
def test_a_log_that_is_none_is_passed_over(path: Path, damage: Callable[[int], bytes]) -> None:
    left = killed(path)
    log_of(left).write_bytes(damage(5_000))
    with opened(left) as file:
        assert held(file) == []
        write(file, player("q", "a").snapshot())
    with opened(left) as file:
        assert [one.player_id for one in held(file)] == ["q"]


def remove(what: str, path: Path) -> None:
    if what in ("the file", "both"):
        path.unlink()
    if what in ("its log", "both"):
        log_of(path).unlink()
    if what in ("the folder", "what is in the folder"):
        shutil.rmtree(path.parent)
    if what == "what is in the folder":
        path.parent.mkdir()
    if what == "the folder, by another name":
        path.parent.rename(path.parent.with_name(f"moved-{len([*path.parent.parent.iterdir()])}"))


def left_by_kill(path: Path) -> Path:
    """A copy of what a node would leave that is killed now."""
    return Path(shutil.copytree(path.parent, path.parent.with_name("left"), dirs_exist_ok=True)) / path.name


@pytest.mark.parametrize(
    "removed",
    ["the file", "its log", "both", "the folder", "what is in the folder", "the folder, by another name"],
)
def test_what_is_removed_while_it_is_used_is_there_again_with_all_that_it_held(
    tmp_path: Path, removed: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "folder" / "state.sqlite"
    path.parent.mkdir()
    with opened(path) as file:
        file.begin()
        write(file, player("a", "x", "y").snapshot(), player("gone", "z").snapshot())
        file.shorten(7)
        write(file, player("b", "x").snapshot())
        for number in range(2):  # the new one may be removed, too
            caplog.clear()
            remove(removed, path)
            file.write(
                [Change(f"c{number}", player(f"c{number}", "w").snapshot(), 5, 5), Change("gone", None, 5, 1)], 8
            )
            assert len(caplog.messages) == 1
            with opened(left_by_kill(path)) as left:
                assert {one.player_id for one in held(left)} == {"a", "b", *[f"c{one}" for one in range(number + 1)]}
                assert left.set_aside == ""
            shutil.rmtree(tmp_path / "left")
        assert [part.name for part in sorted(path.parent.iterdir())] == [path.name, log_of(path).name]
        assert {part.stat().st_mode & 0o777 for part in path.parent.iterdir()} == {0o600}
        caplog.clear()
        write(file, player("d", "x").snapshot())
        assert not caplog.messages
    with opened(path) as file:
        assert {one.player_id for one in held(file)} == {"a", "b", "c0", "c1", "d"}


def test_a_file_that_takes_the_place_of_the_one_in_use_is_left_as_it_is(path: Path) -> None:
    foreign = killed(path)
    content = foreign.read_bytes()
    with opened(path) as file:
        write(file, player("a", "x").snapshot())
        path.unlink()
        foreign.rename(path)
        for _ in range(2):
            with pytest.raises(OSError, match="another file is in its place"):
                write(file, player("b", "y").snapshot())
        assert path.read_bytes() == content
        path.unlink()
        write(file, player("b", "y").snapshot())
    with opened(path) as file:
        assert {one.player_id for one in held(file)} == {"p", "a", "b"}


def test_what_cannot_be_put_back_is_tried_again(path: Path) -> None:
    connect = Mock(side_effect=sqlite3.connect)
    with opened(path, connect=connect) as file:
        write(file, player("a", "x").snapshot())
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


@pytest.fixture
def link(tmp_path: Path, path: Path) -> Path:
    """A link to the file, in another folder."""
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "link.sqlite"
    link.symlink_to(path)
    return link


def test_damaged_files_behind_a_link_are_set_aside_where_they_are_each_under_a_name_of_its_own(
    path: Path, link: Path
) -> None:
    for number in range(3):
        path.write_bytes(b"damaged" * (1000 + number))
        with opened(link) as file:
            assert "damaged" in file.set_aside
            assert "set aside" in file.set_aside
            assert held(file) == []
            write(file, player("p", "a").snapshot())
    with opened(link) as file:
        assert (file.set_aside, len(held(file))) == ("", 1)
    assert link.is_symlink()
    kept = {part.read_bytes() for part in path.parent.glob("*.set-aside-*")}
    assert kept == {b"damaged" * (1000 + number) for number in range(3)}


def test_a_link_that_is_removed_while_it_is_used_is_noticed(path: Path, link: Path) -> None:
    with opened(link) as file:
        write(file, player("a", "x").snapshot())
        link.unlink()
        write(file, player("b", "y").snapshot())
    with opened(link) as file:
        assert {one.player_id for one in held(file)} == {"a", "b"}


def test_a_name_that_means_something_to_sqlite_is_a_file_like_others(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        for name in (":memory:", "file:x?mode=memory"):
            with opened(Path(name)) as file:
                write(file, player("a", "x").snapshot())
            with opened(Path(name)) as file:
                assert len(held(file)) == 1


def test_a_link_to_the_file_stays_one(path: Path, link: Path) -> None:
    with opened(link) as file:
        write(file, player("a", "x").snapshot())
        path.unlink()
        write(file, player("b", "y").snapshot())
    assert link.is_symlink()
    with opened(path) as file:
        assert {one.player_id for one in held(file)} == {"a", "b"}


def killed_while_it_wrote(path: Path) -> list[int]:
    """Makes a file with p in it, and q and r in its log, one after the other. Returns where in the log each begins."""
    folder = path.parent / "before"
    folder.mkdir()
    with opened(folder / path.name) as file:
        write(file, player("p", "a").snapshot())
    begins = []
    with opened(folder / path.name) as file:
        for player_id in "qr":
            begins.append(max(32, log_of(folder / path.name).stat().st_size))
            write(file, player(player_id, "a").snapshot())
        for part in folder.glob("state.sqlite*"):
            shutil.copy(part, path.parent)
    return begins


@pytest.mark.parametrize(("damaged", "found"), [(0, ["p"]), (1, ["p", "q"])])
@pytest.mark.parametrize("at", [10, 1000], ids=["in the head of a frame", "in its page"])
def test_of_a_damaged_log_all_before_the_damage_is_taken(path: Path, damaged: int, found: list[str], at: int) -> None:
    flip(log_of(path), killed_while_it_wrote(path)[damaged] + at)
    with opened(path) as file:
        assert [one.player_id for one in held(file)] == found
        write(file, player("s", "a").snapshot())
    with opened(path) as file:
        assert [one.player_id for one in held(file)] == [*found, "s"]


@pytest.mark.parametrize("rest", [0, 10, 100, 4120, -1, -4100, -4130])
def test_what_was_on_its_way_into_the_log_when_the_node_died_is_no_damage(path: Path, rest: int) -> None:
    """A killed node leaves a part of a change; a machine that lost its power, perhaps zeros in its place."""
    log = log_of(path)
    killed_while_it_wrote(path)
    content = log.read_bytes()
    log.write_bytes(content[:rest] if rest < 0 else content + bytes(rest))
    with opened(path) as file:
        assert file.set_aside == ""
        assert [one.player_id for one in held(file)] == (["p", "q"] if rest < 0 else ["p", "q", "r"])


def test_a_record_of_a_file_is_not_nested_deeper_than_one_that_a_client_sends() -> None:
    record = {**state_out(player("p", "a").snapshot(), 5), "metadata": json.loads("[" * 66 + "]" * 66)}
    with pytest.raises(BadRequest, match="nested deeper than 66 levels"):
        read_state(record)


def test_a_newer_file_a_foreign_one_and_one_in_use_are_refused(path: Path, tmp_path: Path) -> None:
    with opened(path), pytest.raises(StateFileError, match="in use by another node"):
        StateFile(path).open()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(StateFileError, match="newer tonearm"):
        StateFile(path).open()
    foreign = tmp_path / "mail.sqlite"
    with closing(sqlite3.connect(foreign)) as database, database:
        database.execute("CREATE TABLE mails (text)")
    with pytest.raises(StateFileError, match="another program"):
        StateFile(foreign).open()


def test_without_a_place_to_write_the_message_says_so(tmp_path: Path) -> None:
    with pytest.raises(StateFileError, match="there is no folder"):
        StateFile(tmp_path / "missing" / "state.sqlite").open()
    with pytest.raises(StateFileError, match="cannot be written"):
        StateFile(tmp_path).open()


def test_a_state_with_which_nodes_die_soon_after_their_start_is_set_aside(path: Path) -> None:
    with opened(path) as file:
        write(file, player("p", "a").snapshot())
    for _ in range(2):
        with opened(path) as file:
            file.begin()
    with opened(path) as file:
        file.begin()
        file.prove()
    for _ in range(3):
        with opened(path) as file:
            assert len(held(file)) == 1
            file.begin()
    with opened(path) as file:
        assert "died 3 times" in file.set_aside
        assert held(file) == []
    (kept,) = path.parent.glob("state.sqlite.set-aside-*")
    with opened(kept.rename(path)) as file:
        assert (file.set_aside, len(held(file))) == ("", 1)

"""What is written of players when, who waits for it, and what happens when the disk does not take it."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.eventually import PATIENCE_S, eventually
from tests.support.playback_log import playing_player
from tests.support.tracks import make_track
from tonearm.core.events import Event, ListenersChange
from tonearm.core.playback import Playback
from tonearm.core.snapshot import PlayerSnapshot, Resume
from tonearm.node.changes import Change
from tonearm.node.file_saving import FileSaving
from tonearm.node.saving import PLAYERS_A_BATCH
from tonearm.node.state_file import StateFile, StateFileError


@dataclass
class Kept:
    """A player whose events are told to `saving`."""

    player_id: str
    playback: Playback
    is_broken: bool = False  # the node fails when it takes its state

    def snapshot(self) -> PlayerSnapshot:
        if self.is_broken:
            raise LookupError
        return replace(self.playback.snapshot(), player_id=self.player_id)


class HandFile(StateFile):
    """Cannot be written while it has a `failure`. Notes what is written, and from `hold` on takes each write only when
    it is released."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self.failure: sqlite3.Error | None = None
        self.batches: list[list[str]] = []
        self.signs: list[int | None] = []  # those that each write was to give
        self.times_shortened = 0
        self._release: threading.Semaphore | None = None

    def write(self, changes: Sequence[Change], now_ms: int | None) -> None:
        if self._release is not None:
            self.batches.append([change.player_id for change in changes])
            assert self._release.acquire(timeout=PATIENCE_S)
        if self.failure is not None:
            raise self.failure
        self.signs.append(now_ms)
        super().write(changes, now_ms)

    def shorten(self, now_ms: int) -> None:
        super().shorten(now_ms)
        self.times_shortened += 1

    def hold(self) -> None:
        self._release = threading.Semaphore(0)

    async def begun(self, count: int) -> None:
        await eventually(lambda: len(self.batches) >= count, "a write has begun")

    def release(self, count: int = 1) -> None:
        assert self._release is not None
        self._release.release(count)


class Bench:
    """Saving in a file of `folder`, with a time of day that is set by hand."""

    def __init__(self, folder: Path, made: list[FileSaving]) -> None:
        self.path = folder / "state.sqlite"
        self.now_ms = 1_700_000_000_000
        self.made = made
        self.anew()

    def anew(self, connect: Callable[..., sqlite3.Connection] = sqlite3.connect, **options: Any) -> None:
        """As a node is that starts."""
        self.players: dict[str, Kept] = {}
        self.file = HandFile(self.path, connect=connect)
        self.saving = FileSaving(self.file, self.players, lambda: self.now_ms, **options)
        self.made.append(self.saving)

    async def read(self) -> list[PlayerSnapshot]:
        await self.saving.open()
        return await self.saving.read(Resume.PLAYING)

    async def start(self) -> list[PlayerSnapshot]:
        found = await self.read()
        await self.saving.keep()
        return found

    def create(self, *player_ids: str) -> None:
        for player_id in player_ids:
            self.players[player_id] = Kept(player_id, playing_player("ab").playback)
            self.saving.changed(player_id)

    async def restart(self, **options: Any) -> list[PlayerSnapshot]:
        await self.saving.stop()
        self.anew(**options)
        return await self.start()

    def left_by_kill(self) -> "Bench":
        """Another node's, with what this one would leave if it were killed now."""
        folder = self.path.parent / f"left-{len([*self.path.parent.iterdir()])}"
        folder.mkdir()
        for part in self.path.parent.glob("state.sqlite*"):
            shutil.copy(part, folder)
        left = Bench(folder, self.made)
        left.now_ms = self.now_ms
        return left

    def content(self) -> list[bytes]:
        return [part.read_bytes() for part in sorted(self.path.parent.glob("state.sqlite*"))]

    def tell(self, *events: Event) -> None:
        self.saving.told("p", events)

    async def another_is_written(self) -> None:
        self.saving.changed("other")
        await eventually(lambda: self.saving.saved("other"), "another player is written")

    async def written(self, do: Callable[[], None]) -> bool:
        """Whether `do` leads to a write."""
        before = self.saving.figures.writes
        do()
        await eventually(lambda: self.saving.saved("p"), "the player is written")
        return self.saving.figures.writes > before


def place(player: PlayerSnapshot) -> tuple[str, int]:
    """The current track and the position in it."""
    assert player.current is not None
    return player.current.track.id, player.position_ms


@pytest_asyncio.fixture(loop_scope="module")
async def empty(tmp_path: Path) -> AsyncIterator[Bench]:
    made: list[FileSaving] = []
    bench = Bench(tmp_path / "folder", made)
    bench.path.parent.mkdir()
    await bench.start()
    yield bench
    while made:
        await made.pop().stop()


@pytest_asyncio.fixture(loop_scope="module")
async def bench(empty: Bench) -> Bench:
    """With a player `p` that plays and is in the file."""
    empty.create("p")
    await eventually(lambda: empty.saving.saved("p"), "the player is written")
    return empty


async def test_a_position_is_written_only_when_it_does_not_follow_from_the_last_one(bench: Bench) -> None:
    playback = bench.players["p"].playback
    bench.now_ms += 5_000
    playback.position_ms += 5_020
    assert not await bench.written(lambda: bench.tell(playback.update()))
    bench.now_ms += 5_000
    playback.position_ms += 4_000  # frames were left out
    assert await bench.written(lambda: bench.tell(playback.update()))
    assert not await bench.written(lambda: bench.tell(ListenersChange(3)))


@pytest.mark.parametrize(
    ("jump_ms", "away_ms", "passed_ms"),
    [(-3_600_000, 1_000, 1_000), (3_600_000, 1_000, 1_000), (0, -3_600_000, 0), (0, 60_001, 0)],
)
async def test_a_jump_of_the_time_of_day_just_before_a_kill_or_a_long_absence_costs_no_position(
    bench: Bench, jump_ms: int, away_ms: int, passed_ms: int
) -> None:
    playback = bench.players["p"].playback
    bench.create("other")
    for step_ms in (5_000, 5_000, 5_000 + jump_ms):
        bench.now_ms += step_ms
        playback.position_ms += 5_000
        await bench.another_is_written()
    left = bench.left_by_kill()
    left.now_ms += away_ms - 1
    await left.read()  # this start fails, and changes nothing
    await left.saving.stop()
    left.anew()
    left.now_ms += 1
    found = {player.player_id: player for player in await left.start()}
    assert place(found["p"]) == ("a", playback.position_ms + passed_ms)


async def test_a_node_that_is_killed_while_it_writes_what_it_restored_leaves_all_where_they_were(
    empty: Bench,
) -> None:
    count = PLAYERS_A_BATCH + 1
    empty.create(*(f"p{number}" for number in range(count)))
    await eventually(lambda: empty.saving.saved(f"p{count - 1}"), "the last of them is written")
    assert empty.saving.figures.writes <= 10
    await empty.saving.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    position_ms = empty.players["p0"].playback.position_ms
    restored = empty.players
    empty.now_ms += 3_600_000
    empty.anew()
    await empty.read()
    empty.players |= restored
    writes = empty.file
    writes.hold()
    keeping = asyncio.create_task(empty.saving.keep())
    await writes.begun(1)
    writes.release()
    await writes.begun(2)
    left = empty.left_by_kill()
    writes.release(10)
    await keeping
    found = await left.start()
    assert {place(player) for player in found} == {("a", position_ms)}
    assert len(found) == count


async def test_a_node_at_rest_writes_no_more_than_signs_of_life_and_without_players_not_even_those(
    bench: Bench,
) -> None:
    await bench.restart(sign_of_life_s=0.01)
    bench.create("p")
    file = bench.file

    async def rests() -> None:
        before = len(file.signs)
        await eventually(lambda: len(file.signs) > before + 5, "more signs of life were due")

    await eventually(lambda: file.times_shortened, "what was written is in the file")
    before = file.times_shortened
    await rests()
    assert file.times_shortened == before
    assert file.signs[-1] is not None
    del bench.players["p"]
    bench.saving.changed("p")
    await eventually(lambda: file.times_shortened > before, "it is gone from the file")
    content = bench.content()
    await rests()
    assert file.signs[-1] is None
    assert bench.content() == content


@pytest.mark.parametrize("has_read", [False, True])
async def test_a_node_that_dies_three_times_while_it_reads_the_state_begins_without_it(
    bench: Bench, has_read: bool
) -> None:
    await bench.saving.stop()
    for _ in range(3):
        bench.anew()
        assert len(await bench.read()) == 1
        if has_read:
            await bench.saving.keep()
            await bench.another_is_written()
        left = bench.left_by_kill()
        await bench.saving.stop()
        bench = left
    found = await bench.start()
    assert len(found) == has_read
    assert ("died 3 times" in bench.saving.degraded) is not has_read
    if not has_read:
        await bench.saving.stop()
        (kept,) = bench.path.parent.glob("state.sqlite.set-aside-*")
        kept.rename(bench.path)
        bench.anew()
        assert (len(await bench.start()), bench.saving.degraded) == (1, "")


async def test_stops_that_could_not_write_the_last_positions_are_no_deaths(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        bench.file.failure = sqlite3.OperationalError("disk is full")
        await bench.saving.stop()
        assert "could not be written to its end: disk is full" in caplog.text
        bench.anew()
        assert (len(await bench.start()), bench.saving.degraded) == (1, "")


@pytest.mark.parametrize(
    ("words", "reason", "told"),
    [
        ("SELECT id, head", "disk I/O error", r"cannot be read \(disk I/O error\)"),
        ("UPDATE node", "database or disk is full", r"disk is full\); make room"),
    ],
)
async def test_a_disk_that_fails_at_the_start_is_told_and_the_state_is_as_it_was(
    bench: Bench, words: str, reason: str, told: str
) -> None:
    class FailingDisk(sqlite3.Connection):
        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            if sql.startswith(words):
                raise sqlite3.OperationalError(reason)
            return super().execute(sql, parameters)

    await bench.saving.stop()
    bench.anew(connect=partial(sqlite3.connect, factory=FailingDisk))
    with pytest.raises(StateFileError, match=told):
        await bench.read()
    await bench.saving.stop()
    bench.anew()
    assert [player.player_id for player in await bench.start()] == ["p"]


async def test_a_player_whose_state_cannot_be_taken_is_named_and_costs_no_other_player_anything(bench: Bench) -> None:
    broken = bench.players["p"]
    broken.is_broken = True
    bench.create("other")
    bench.tell(*broken.playback.enqueue(make_track("e")).events)
    await bench.another_is_written()
    unsaved = bench.saving.figures.unsaved_answers
    assert not await bench.saving.saved("p")
    assert bench.saving.figures.unsaved_answers == unsaved + 1
    assert "Player p is not kept" in bench.saving.degraded
    found = {player.player_id: player for player in await bench.left_by_kill().start()}
    assert [queued.track.id for queued in found["p"].queue] == ["b"]
    assert place(found["other"])[0] == "a"
    broken.is_broken = False
    bench.saving.changed("p")
    await eventually(lambda: bench.saving.saved("p"), "it is written again")
    assert bench.saving.degraded == ""
    broken.is_broken = True
    assert [len(player.queue) for player in await bench.restart()] == [2, 1]


async def test_a_disk_that_fails_and_a_folder_that_is_gone_are_told_and_nothing_is_lost_when_they_are_there(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    folder = bench.path.parent
    await bench.restart(sign_of_life_s=0.05)
    bench.create("p")
    await eventually(lambda: bench.saving.saved("p"), "the player is written")
    playback = bench.players["p"].playback
    bench.file.failure = sqlite3.OperationalError("database or disk is full")
    bench.saving.changed("p")
    await eventually(lambda: "disk is full" in bench.saving.degraded, "the failure is told")
    bench.file.failure = None
    await eventually(lambda: bench.saving.saved("p"), "it is written again")
    shutil.rmtree(folder)
    folder.write_text("a file in place of the folder")
    await eventually(lambda: bench.saving.trouble, "a node in which nothing changes notices it")
    bench.tell(*playback.enqueue(make_track("c")).events)
    assert not await bench.saving.saved("p")
    assert "cannot be written" in bench.saving.degraded
    folder.unlink()
    await eventually(lambda: bench.saving.saved("p"), "it is written again")
    assert bench.saving.degraded == ""
    assert [record.levelname for record in caplog.records if "state" in record.message].count("ERROR") == 2
    (found,) = await bench.left_by_kill().start()
    assert [queued.track.id for queued in found.queue] == ["b", "c"]


async def test_damaged_records_are_named_until_others_take_their_place_and_those_of_no_player_are_set_aside(
    empty: Bench,
) -> None:
    damaged = [f"damaged{number}" for number in range(6)]
    empty.create("fit", "slash", "bytes", "no text", *damaged)
    await empty.saving.stop()
    with closing(sqlite3.connect(empty.path)) as database, database:
        for new, old in (("'a/b'", "slash"), ("x'7a'", "bytes"), ("CAST(x'ff' AS TEXT)", "no text")):
            database.execute(f"UPDATE players SET id = {new} WHERE id = ?", (old,))  # noqa: S608
            database.execute(f"UPDATE tracks SET player = {new} WHERE player = ?", (old,))  # noqa: S608
        database.execute("UPDATE players SET head = '{' WHERE id LIKE 'damaged%'")
    empty.anew()
    assert [found.player_id for found in await empty.start()] == ["fit"]
    for told in ("a/b", "set aside", "damaged0, damaged1, damaged2, damaged3, damaged4 and 1 more"):
        assert told in empty.saving.degraded
    assert not empty.saving.trouble
    empty.create("fit", *damaged)
    assert "missing" not in empty.saving.degraded
    assert len(await empty.restart()) == 7
    assert empty.saving.degraded == ""
    await empty.saving.stop()
    (kept,) = empty.path.parent.glob("state.sqlite.set-aside-*")
    assert kept.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(kept)) as database:
        ids = database.execute("SELECT CAST(id AS BLOB) FROM players ORDER BY place").fetchall()
        assert ids == [(b"a/b",), (b"z",), (b"\xff",)]
        assert database.execute("SELECT count(*) FROM tracks").fetchall() == [(6,)]


async def test_an_answer_waits_for_its_own_player_only_and_that_is_written_before_others(bench: Bench) -> None:
    saving, writes = bench.saving, bench.file
    writes.hold()
    others = [f"p{number}" for number in range(3 * PLAYERS_A_BATCH)]
    bench.create("p0")
    await writes.begun(1)
    bench.create(*others)
    assert await saving.saved("p")
    assert not await saving.saved("p0")  # it has changed again since it was taken
    saving.changed("p")
    assert not await saving.saved("p")
    writes.release()
    await writes.begun(2)
    assert writes.batches[0] == ["p0"]
    assert {"p", "p0"} < set(writes.batches[1])
    writes.release()
    await writes.begun(3)
    assert await saving.saved("p")
    assert not await saving.saved(others[-1])
    writes.release(10)
    await eventually(lambda: saving.saved(others[-1]), "all are written")

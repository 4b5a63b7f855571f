"""What is kept of players that are given away while something of them is to be written."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.cluster.test_ownership import HeldBucket, ownership, read
from tests.support.eventually import eventually
from tests.support.playback_log import playing_player
from tonearm.cluster.engine import EngineLost, Entry
from tonearm.cluster.engine_saving import EngineSaving, record_of
from tonearm.cluster.ownership import Ownership
from tonearm.core.snapshot import Resume


class Kept:
    """A node with the players p and q, which are written."""

    def __init__(self) -> None:
        self.bucket = HeldBucket()
        self.ownership: Ownership = ownership(self.bucket, "a", [])
        self.players: dict[str, Any] = {}
        self.saving = EngineSaving(self.ownership, self.players, lambda: 0, 0)

    async def begin(self) -> None:
        for player_id in ("p", "q"):
            await self.ownership.claim(player_id)
            self.add(player_id)
        await self.saving.keep()
        assert await self.saving.saved("p")

    def add(self, player_id: str) -> None:
        self.players[player_id] = playing_player("a").playback

    def give_up(self, player_id: str) -> None:
        """As `Cluster` and `Node` do it."""
        self.ownership.let_go(player_id)
        self.delete(player_id)

    def delete(self, player_id: str) -> None:
        del self.players[player_id]
        self.saving.changed(player_id)


@pytest.fixture
async def kept() -> AsyncIterator[Kept]:
    found = Kept()
    await found.begin()
    yield found
    await found.saving.stop()


async def test_a_change_of_a_player_that_is_given_up_before_it_is_written_is_not_told_as_kept(kept: Kept) -> None:
    kept.saving.changed("p")
    kept.give_up("p")
    assert not await kept.saving.saved("p")
    assert "p" in kept.bucket.entries, "it goes on elsewhere"


async def test_a_deletion_is_told_as_kept_where_the_player_was_ones_own(kept: Kept) -> None:
    kept.delete("p")
    assert await kept.saving.saved("p")
    assert "p" not in kept.bucket.entries
    other = ownership(kept.bucket, "b", [])
    assert await other.take("q", "a", read) is not None  # which this node does not know yet
    kept.delete("q")
    assert not await kept.saving.saved("q")
    assert "q" in kept.bucket.entries


async def test_a_player_that_is_created_while_its_namesake_is_being_deleted_is_this_nodes(kept: Kept) -> None:
    kept.delete("p")
    assert await kept.saving.claim("p"), "anew"
    assert not await kept.saving.claim("p")
    kept.add("p")
    kept.saving.changed("p")
    assert await kept.saving.saved("p")
    kept.bucket.is_frozen = True
    kept.delete("p")
    with pytest.raises(EngineLost, match="deletion of the player p"):
        await kept.saving.claim("p")
    kept.bucket.is_frozen = False
    kept.bucket.answers.set()


async def test_a_player_that_was_given_up_and_comes_back_is_not_deleted_meanwhile(kept: Kept) -> None:
    kept.bucket.is_frozen = True
    kept.saving.changed("q")
    await asyncio.sleep(0)  # it is being written
    kept.give_up("p")
    kept.bucket.is_frozen = False
    kept.bucket.answers.set()
    assert await kept.ownership.take("p", "a", read) is not None
    await asyncio.sleep(0.1)
    kept.saving.changed("q")  # what failed is written again, before the player is made of its record
    await eventually(lambda: not kept.saving._dirty and not kept.saving.trouble, "all is written")
    assert "p" in kept.bucket.entries
    kept.add("p")
    kept.saving.changed("p")
    assert await kept.saving.saved("p")


async def test_an_engine_that_is_lost_while_players_are_read_ends_no_start() -> None:
    bucket = HeldBucket()
    before, again = (ownership(bucket, "a", []) for _ in range(2))
    for player_id in ("p", "q"):
        await before.claim(player_id)
        snapshot = replace(playing_player("a").playback.snapshot(), player_id=player_id)
        assert await before.write(player_id, await record_of(snapshot, 0))
    saving = EngineSaving(again, {}, lambda: 0, 0)
    await saving.open()
    plain = bucket.get

    async def get(key: str) -> Entry | None:
        if key == "q":
            raise EngineLost("it does not answer")
        return await plain(key)

    bucket.get = get  # type: ignore[method-assign]
    assert [found.player_id for found in await saving.read(Resume.PLAYING)] == ["p"]
    assert again.epoch_of("q") is None, "a later turn takes it"
    await again.stop()

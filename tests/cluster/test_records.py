"""What a node believes of the records of players that stand in the engine."""

from typing import Any

import pytest

from tonearm.cluster.engine import Entry
from tonearm.cluster.ownership import Ownership

HEAD = b'{"owner": "%s", "epoch": %s, "token": "x"}\n{}'


class OneKey:
    """A bucket in which one value stands under every key."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    async def get(self, key: str) -> Entry:
        return Entry(key, self._value, 1)


def ownership_of(value: bytes) -> Ownership:
    bucket: Any = OneKey(value)
    return Ownership(bucket, "own", 1024)


async def test_an_owner_is_read() -> None:
    assert await ownership_of(HEAD % (b"node-1", b"1")).owner_of("p") == "node-1"


@pytest.mark.parametrize(
    "wrong",
    [
        HEAD % (b"a\\nb", b"1"),
        HEAD % (b"a" * 65, b"1"),
        HEAD % (b"", b"1"),
        HEAD % (b"a", b"0"),
        HEAD % (b"a", b"9" * 4300),
        HEAD % (b"a", b"9" * 5000),
        HEAD % (b"a", b"1.5"),
    ],
)
async def test_what_cannot_be_an_owner_has_no_player(wrong: bytes) -> None:
    owner = ownership_of(wrong)
    assert await owner.owner_of("p") is None
    assert await owner.take("p", "a", lambda player_id, record: None) is None

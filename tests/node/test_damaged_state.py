"""A state that cannot be trusted is set aside or refused with a clear message, or costs the players that are wrong in
it; the node never fails by it, and what it makes of the file can be read again.

40 files by default, others in each run; `make fuzz` asks for more, and `SEED` for the same ones again.
"""

import os
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.damaged_state import damaged_state
from tonearm.core.playback import Playback
from tonearm.core.snapshot import Resume
from tonearm.node.saving import Saving
from tonearm.node.state_file import StateFileError

FILES = int(os.environ.get("FUZZ_STATES") or 40)
SEED = int(os.environ.get("FUZZ_SEED") or random.randrange(10**9))
NOW_MS = 60_000


async def outcome(path: Path) -> tuple[str, list[str]]:
    """What a node makes of the file, in a word, and the ids of the players that it has then."""
    players: dict[str, Playback] = {}
    saving = Saving(path, players, lambda: NOW_MS)
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
    set_aside = saving.degraded
    await saving.stop()
    assert not set_aside or not players
    return "set aside" if set_aside else "read", [*players]


async def test_no_file_ends_the_node_and_each_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outcomes: dict[str, int] = {}
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
        outcomes[name] = outcomes.get(name, 0) + 1
    print(f"{FILES} files of the state from seed {SEED}: {outcomes}")  # noqa: T201 - of a long run

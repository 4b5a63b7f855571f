"""The numbers that processes have in the figures."""

import random

from tonearm.core.figures import ProcessFigures, in_slots

MOST_AT_ONCE = 4


def process(pid: int) -> ProcessFigures:
    return ProcessFigures("other" if pid % 3 else "decoder", pid, 0.0, 0)


def test_processes_keep_their_numbers_and_however_many_end_there_are_no_more_numbers_than_processes_at_once() -> None:
    chance = random.Random(7)
    shown: tuple[ProcessFigures, ...] = ()
    for pid in range(1, 1000):
        stayed = chance.sample(shown, min(len(shown), chance.randrange(MOST_AT_ONCE)))
        before, shown = shown, in_slots([process(one) for one in (*[one.pid for one in stayed], pid)], shown)
        labels = {(one.kind, one.slot) for one in shown}
        assert len(labels) == len(shown)
        assert labels <= {(kind, slot) for kind in ("decoder", "other") for slot in range(1, MOST_AT_ONCE + 1)}
        kept = {one.pid: one.slot for one in before}
        assert all(one.slot == kept.get(one.pid, one.slot) for one in shown)

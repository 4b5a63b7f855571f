from bench.parts.steps import ROLES, by_role
from bench.processes import ThreadTime

NODE, DECODER = 10, 20


def test_time_is_told_by_role_and_new_threads_count_from_nothing() -> None:
    before = {
        (NODE, 10): ThreadTime(100, 1),
        (NODE, 11): ThreadTime(50, 1),
        (DECODER, 20): ThreadTime(200, 2),
        (DECODER, 21): ThreadTime(10, 5),
    }
    after = {
        (NODE, 10): ThreadTime(150, 3),
        (NODE, 11): ThreadTime(50, 1),
        (DECODER, 20): ThreadTime(230, 4),
        (DECODER, 21): ThreadTime(15, 6),
        (DECODER, 22): ThreadTime(7, 1),
        (DECODER, 23): ThreadTime(8, 2),
    }
    found = by_role(NODE, before, after)
    assert list(found) == list(ROLES)
    assert [(spent.cpu_ns, spent.switches) for spent in found.values()] == [(50, 2), (0, 0), (30, 2), (5, 1), (15, 3)]

"""Whatever becomes of a queue, the splice says it, and of what stays as it is as much as there is."""

from hypothesis import given
from hypothesis import strategies as st

from tonearm.core.splices import splice_of


@given(st.data(), st.integers(0, 150))
def test_a_splice_leads_from_the_one_to_the_other(data: st.DataObject, length: int) -> None:
    old = tuple(range(length))
    new = old[data.draw(st.integers(0, length)) :]
    for _ in range(data.draw(st.integers(0, 2))):
        begin, end = sorted(data.draw(st.tuples(*(st.integers(0, len(new)),) * 2)))
        cut, rest = new[begin:end], new[:begin] + new[end:]
        at = data.draw(st.integers(0, len(rest)))
        new = rest[:at] + data.draw(st.sampled_from(((), cut, cut[::-1], (1000 + len(new),)))) + rest[at:]
    splice = splice_of(old, new)
    left = old[len(splice.dropped) :]
    assert old[: len(splice.dropped)] == splice.dropped
    behind = splice.kept_first + len(splice.removed)
    first, last = left[: splice.kept_first], left[behind:]
    assert left[len(first) : behind] == splice.removed
    assert first + splice.added + last == new
    assert splice.is_change == (old != new)


def test_what_stays_is_found() -> None:
    old = tuple(range(1000))
    cases = [((*old, -1), 1000), ((-1, *old), 1000), ((*old[1:], 0), 999), ((*old[40:], -1), 960)]
    for new, kept in [*cases, ((*old[:500], -1, *old[500:]), 1000), ((*old[:500], *old[501:]), 999)]:
        splice = splice_of(old, new)
        assert len(old) - len(splice.dropped) - len(splice.removed) == kept

"""The bytes that are held around the reading position."""

from hypothesis import given
from hypothesis import strategies as st

from tonearm.sources.read_ahead import ReadWindow


def test_takes_what_is_there_and_no_more() -> None:
    window = ReadWindow(100, behind_bytes=10, ahead_bytes=1000)
    assert window.take(5) == b""
    window.append(b"abcdef")
    assert (window.take(4), window.take(4), window.take(4)) == (b"abcd", b"ef", b"")


def test_position_beyond_the_end_drops_what_lies_between() -> None:
    window = ReadWindow(0, behind_bytes=0, ahead_bytes=10)
    window.move_to(8)
    window.append(b"012345")
    assert window.take(10) == b""
    window.append(b"6789")
    assert window.take(10) == b"89"


def test_full_when_enough_lies_ahead_of_the_position() -> None:
    window = ReadWindow(0, behind_bytes=5, ahead_bytes=10)
    window.append(bytes(10))
    assert window.is_full
    window.take(1)
    assert not window.is_full


def test_single_bytes_do_not_pile_up_as_objects() -> None:
    window = ReadWindow(0, behind_bytes=0, ahead_bytes=100_000)
    for _ in range(20_000):
        window.append(b"x")
    assert len(window._chunks) < 10


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=30),
    behind_bytes=st.integers(0, 30),
    places=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 60)), max_size=40),
)
def test_gives_the_bytes_of_the_file_wherever_it_can_reach(
    chunks: list[bytes], behind_bytes: int, places: list[tuple[float, int]]
) -> None:
    whole = b"".join(chunks)
    window = ReadWindow(0, behind_bytes=behind_bytes, ahead_bytes=50)
    waiting = list(chunks)
    for place, max_bytes in places:
        offset = window.start + int(place * (window.end - window.start))
        window.move_to(offset)
        assert window.take(max_bytes) == whole[offset : min(offset + max_bytes, window.end)]
        if waiting:
            window.append(waiting.pop(0))
        assert window.end - window.start <= behind_bytes + 4096 + (window.end - min(window.position, window.end))

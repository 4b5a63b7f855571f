"""What the bench's figures are made of: its own listeners, what counts as a frame, as late and as the edge."""

import itertools

import pytest
from bench.edge import find_edge
from bench.evenness import evenness, lateness_ms
from bench.frame_stream import MESSAGE_BYTES, FrameStream, PacketStream

FRAME = b"\x82\x7e\x0f\x00" + bytes(range(256)) * 15
PACKET = b"\x82\x7e\x01\x40" + bytes(320)
PING, PONG, CLOSE, TEXT = b"\x89\x03abc", b"\x8a\x00", b"\x88\x02\x03\xe8", b"\x81\x02hi"
LONG_TEXT = b"\x81\x7e\x01\x00" + b"x" * 256
LONG_BINARY = b"\x82\x7f" + (70_000).to_bytes(8, "big") + bytes(70_000)


@pytest.mark.parametrize("piece_bytes", [1, 3, 5, 100, len(PACKET), MESSAGE_BYTES, MESSAGE_BYTES + 1, 1 << 20])
@pytest.mark.parametrize(("kind", "one", "other"), [(FrameStream, FRAME, LONG_TEXT), (PacketStream, PACKET, FRAME)])
def test_everything_is_counted_however_it_is_cut(
    kind: type[FrameStream] | type[PacketStream], one: bytes, other: bytes, piece_bytes: int
) -> None:
    stream = kind()
    data = one + PING + one * 2 + TEXT + PONG + one + other + LONG_BINARY + one + PING + CLOSE
    assert sum(stream.feed(data[at : at + piece_bytes]) for at in range(0, len(data), piece_bytes)) == 5
    assert (stream.pings, stream.strays, stream.is_closed) == ([b"abc", b"abc"], 3, True)


def test_the_worst_listener_counts_and_the_lateness_of_all_against_their_own_grids() -> None:
    late = [7.01, 7.02, 7.06, 7.08]  # the grid is that of the earliest
    assert lateness_ms(late) == pytest.approx([10, 0, 20, 20], abs=1e-6)
    whole = [number * 0.02 for number in range(100)]
    found = evenness([whole, whole[:50]], window_s=2.0)
    assert (found.frames, found.worst_share) == (150, 50 / 99)
    assert found.late_p99_ms == pytest.approx(0, abs=1e-6)
    assert (evenness([[]], 2.0).late_p99_ms, evenness([], 2.0).worst_share) == (2000, 0)


@pytest.mark.parametrize(("edge", "answer"), [(0, 0), (24, 0), (25, 25), (310, 300), (475, 475), (1000, 1000)])
async def test_the_edge_is_found_from_anywhere(edge: int, answer: int) -> None:
    async def is_even(players: int) -> bool:
        return players <= edge

    for near, stride in itertools.product((25, 100, 310, 475), (25, 50, 200)):
        assert await find_edge(is_even, near, stride, step=25) == answer, (near, stride)

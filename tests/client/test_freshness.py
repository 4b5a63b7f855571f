"""Which frames a client leaves out after it stood still."""

import asyncio
import time
from collections.abc import Iterable
from typing import cast

import aiohttp

from tonearm.client.audio import Freshness, messages
from tonearm.core.frame import FRAME_S

MAX_LATENCY_MS = 200


def heard(arrivals: Iterable[tuple[int, float, float]]) -> list[int]:
    """The numbers of frames that are not stale. Each arrives as number, time waited for it, time of day."""
    freshness = Freshness(MAX_LATENCY_MS)
    return [number for number, waited_s, now_s in arrivals if not freshness.is_stale(number, waited_s, now_s)]


def steady(first: int, last: int, begin_s: float) -> list[tuple[int, float, float]]:
    return [(number, 0.019, begin_s + (number - first) * 0.02) for number in range(first, last)]


def at_once(first: int, last: int, now_s: float) -> list[tuple[int, float, float]]:
    return [(number, 0.0, now_s) for number in range(first, last)]


def test_what_is_read_in_time_is_heard() -> None:
    assert heard(steady(1, 500, 7.0)) == list(range(1, 500))


def test_after_a_standstill_only_the_newest_are_heard() -> None:
    """100 frames came in six seconds in which nobody read; the node kept the newest ten of the rest."""
    stood_still = [*steady(1, 51, 0.0), *at_once(51, 151, 7.0), *at_once(341, 351, 7.0), *steady(351, 400, 7.01)]
    numbers = heard(stood_still)
    assert numbers[:50] == list(range(1, 51))
    assert numbers[50:] == list(range(341, 400))


def test_a_pause_of_the_player_makes_no_frame_late() -> None:
    assert heard([*steady(1, 51, 0.0), (51, 59.0, 60.0), *steady(52, 101, 60.02)]) == list(range(1, 101))
    slow = [(number, 0.004, number * 0.02) for number in range(1, 51)]  # its reader works for 16 ms at each
    assert heard([*slow, (51, 59.0, 60.0)]) == list(range(1, 52))


def test_a_burst_at_the_beginning_is_heard() -> None:
    assert heard([(1, 0.1, 3.0), *at_once(2, 20, 3.0), *steady(20, 60, 3.02)]) == list(range(1, 60))


def test_what_piled_up_is_read_piece_by_piece() -> None:
    """Each piece is waited for, a moment, as the loop turns between them; its first frame proves nothing."""
    pieces = [(number, 0.003 if number % 60 == 51 else 0.0, 7.0) for number in range(51, 351)]
    assert heard([*steady(1, 51, 0.0), *pieces, *steady(351, 400, 7.01)]) == [*range(1, 51), *range(341, 400)]


def test_a_standstill_in_a_pause_costs_two_frames() -> None:
    """The first one after it may have waited as long as the loop stood still."""
    numbers = heard([*steady(1, 51, 0.0), (51, 0.0, 60.0), *steady(52, 101, 60.02)])
    assert numbers == [*range(1, 51), *range(53, 101)]


def test_no_reader_hears_nothing_for_longer_than_a_second() -> None:
    """Of one that is always late nothing is ever certain; it is late, and hears."""
    bunches = [(number, 0.0, 60.0 + number // 8 * 0.16) for number in range(51, 500)]
    numbers = heard([*steady(1, 51, 0.0), *bunches])
    assert 100 < numbers[50] < 112
    assert numbers[50:] == list(range(numbers[50], 500))


def test_a_reader_that_is_a_little_late_loses_nothing() -> None:
    assert heard([*steady(1, 51, 0.0), *at_once(51, 60, 1.17), *steady(60, 90, 1.19)]) == list(range(1, 90))


class SlowSocket:
    """A socket that has a message from the second look on, and a machine that lets go of the program there."""

    def __init__(self) -> None:
        self._looks = 0

    async def receive(self, timeout: float) -> aiohttp.WSMessage:  # noqa: ASYNC109 - as aiohttp has it
        self._looks += 1
        if self._looks == 1:
            await asyncio.sleep(0)
            time.sleep(3 * timeout)  # noqa: ASYNC251 - the program stands still
            raise TimeoutError
        time.sleep(0.005)  # noqa: ASYNC251
        return aiohttp.WSMessage(aiohttp.WSMsgType.BINARY, b"frame", None)


async def test_what_is_there_when_a_look_begins_was_not_waited_for_however_long_it_takes_to_come_back() -> None:
    given = messages(cast(aiohttp.ClientWebSocketResponse, SlowSocket()))
    _, waited_s = await anext(given)
    assert waited_s < FRAME_S / 2

"""Where a player's tracks fade over, after what its clients ask for late, by a clock that the test drives."""

from collections.abc import Callable

import pytest

from tests.support.sleep_bench import SleepBench, seconds
from tests.support.tracks import make_track
from tonearm.core.crossfade import CrossfadeEdit
from tonearm.core.filters import FilterChange
from tonearm.core.frame import SAMPLE_RATE_HZ
from tonearm.core.playback_requests import Requests
from tonearm.player.player import Player

FADE = CrossfadeEdit(duration_ms=8_000)


async def joins_s(
    *titles: str, at_s: float = 5, late: tuple[Callable[[Player], object], ...], duration_ms: int = 8_000
) -> list[tuple[float, float]]:
    """Where tracks of a minute are left, and where the next ones begin, in seconds of their files, when this happens
    `at_s` seconds after the beginning."""
    bench = SleepBench({"a": seconds(60), "b": seconds(60)}, *titles)
    listener = bench.listen()
    bench.player.do(Requests.change_crossfade, CrossfadeEdit(duration_ms=duration_ms))
    await bench.run(at_s)
    for ask in late:
        ask(bench.player)
        await bench.run(0.1)
    await bench.run(65 - at_s)
    joints = [(left / SAMPLE_RATE_HZ, begins / SAMPLE_RATE_HZ) for left, begins in bench.joints(listener)]
    assert bench.player.status().quality.underruns == 0
    await bench.close()
    return joints


def seek(position_ms: int) -> Callable[[Player], object]:
    return lambda player: player.seek(position_ms)


def louder(player: Player) -> None:
    player.do(Requests.change_filters, FilterChange(volume=1.5))


def fade(player: Player) -> None:
    player.do(Requests.change_crossfade, FADE)


def add(player: Player) -> None:
    player.do(Requests.enqueue, make_track("b"))


@pytest.mark.parametrize("position_ms", [20_000, 51_000])
async def test_a_seek_before_a_crossfade_leaves_it_whole(position_ms: int) -> None:
    *_, (left_s, begins_s) = await joins_s("a", "b", late=(seek(position_ms),))
    assert (left_s, begins_s) == (52, 0)


@pytest.mark.parametrize("position_ms", [53_000, 57_000, 59_500])
async def test_a_seek_behind_its_beginning_leaves_the_rest(position_ms: int) -> None:
    _, (left_s, begins_s) = await joins_s("a", "b", late=(seek(position_ms),))
    assert position_ms / 1000 < left_s <= position_ms / 1000 + 0.1
    assert begins_s == 0


async def test_a_seek_to_the_last_moment_joins_plainly() -> None:
    assert (await joins_s("a", "b", late=(seek(59_910),)))[1:] == [(60, 0)]


async def test_a_crossfade_asked_for_behind_its_beginning_has_its_rest() -> None:
    [(left_s, begins_s)] = await joins_s("a", "b", at_s=55, duration_ms=0, late=(fade,))
    assert left_s == pytest.approx(55, abs=0.2)
    assert begins_s == 0


async def test_a_track_that_comes_too_late_for_its_crossfade_joins_plainly_whatever_changes_then() -> None:
    assert await joins_s("a", at_s=55, late=(add, louder, fade)) == [(60, 0)]

"""What a player's session may ask of a full node: nobody who begins, or begins again, comes before those who play."""

import pytest

from tests.support.player_bench import SleepBench, seconds
from tests.support.sinks import MemoryListener
from tonearm.core.admission import Claim, Urgency
from tonearm.core.overlays import OverlaySettings
from tonearm.core.playback_requests import Requests
from tonearm.player.sleep import SLEEP_AFTER_S
from tonearm.player.timers import IDLE_S


def claim(bench: SleepBench) -> Claim:
    (owner,) = bench.pool.owners.values()
    return owner.claim


@pytest.mark.parametrize(
    ("away_s", "pauses"),
    [(None, True), (SLEEP_AFTER_S + 0.1, False), (0.0, True)],
)
async def test_who_begins_again_comes_behind_those_who_play(away_s: float | None, pauses: bool) -> None:
    bench = SleepBench({"a": seconds(60)}, "a", sleeps=False)
    assert claim(bench).urgency is Urgency.UNHEARD
    leave = bench.player.attach(MemoryListener())
    assert claim(bench).urgency is Urgency.STARTS
    await bench.run(1)
    assert claim(bench).urgency is Urgency.PLAYS
    others = Claim(Urgency.PLAYS, bench.pool.next_claim())
    if away_s is not None:
        leave()
    if pauses:
        bench.player.do(Requests.pause)
    await bench.run(1 if away_s is None else away_s)
    assert claim(bench).urgency is Urgency.UNHEARD
    bench.player.do(Requests.play)
    if away_s is not None:
        assert claim(bench).urgency is Urgency.UNHEARD
        bench.listen()
    assert claim(bench).urgency is Urgency.STARTS
    assert others.number < claim(bench).number
    await bench.run(1)
    assert others < claim(bench)
    assert claim(bench).urgency is Urgency.PLAYS


@pytest.mark.parametrize("played_s", [0, 1])
async def test_who_is_back_within_two_seconds_keeps_its_place(played_s: float) -> None:
    bench = SleepBench({"a": seconds(60)}, "a")
    leave = bench.player.attach(MemoryListener())
    await bench.run(played_s)
    before = claim(bench)
    for _ in range(2):
        leave()
        assert claim(bench) == before
        await bench.run(played_s and SLEEP_AFTER_S - 0.1)
        assert claim(bench) == before
        leave = bench.player.attach(MemoryListener())
        assert claim(bench) == before
    await bench.run(3)
    assert bench.shelf.opened == ["a"]


async def test_a_player_with_nothing_to_play_asks_for_nothing() -> None:
    bench = SleepBench({"a": seconds(5), "b": seconds(60)}, "a")
    listener = bench.listen()
    await bench.run(5 + IDLE_S + 1)
    assert bench.player.status().state == "idle"
    assert bench.is_asleep
    heard = len(listener.messages)
    bench.player.do(Requests.enqueue, bench.new_track("b"))
    assert claim(bench).urgency is Urgency.STARTS
    await bench.run(1)
    assert bench.heard(listener)[heard].pieces[0].sample == 0
    bench.player.do(Requests.stop)
    await bench.run(IDLE_S + 1)
    assert bench.is_asleep
    bench.player.do(Requests.play)
    await bench.run(1)
    assert bench.position_ms == pytest.approx(1000, abs=60)
    bench.player.do(Requests.pause)
    assert claim(bench).urgency is Urgency.UNHEARD
    bench.player.add_overlays((bench.new_track("a"), OverlaySettings()))
    assert claim(bench).urgency is Urgency.STARTS

"""What a player's session may ask of a full node: nobody who begins, or begins again, comes before those who play."""

from tests.support.sinks import MemoryListener
from tests.support.sleep_bench import SleepBench, seconds
from tonearm.core.admission import Claim, Urgency
from tonearm.core.overlays import OverlaySettings
from tonearm.core.playback_requests import Requests


def claim(bench: SleepBench) -> Claim:
    return bench.pool.sessions[0]._owner.claim


async def test_who_plays_again_after_a_pause_comes_behind_those_who_play() -> None:
    bench = SleepBench({"a": seconds(60)}, "a")
    assert claim(bench).urgency is Urgency.UNHEARD
    bench.listen()
    assert claim(bench).urgency is Urgency.STARTS
    await bench.run(1)
    first = claim(bench)
    assert first.urgency is Urgency.PLAYS
    bench.player.do(Requests.pause)
    await bench.run(1)
    assert claim(bench).urgency is Urgency.UNHEARD
    others = Claim(Urgency.PLAYS, bench.pool.next_claim())
    bench.player.do(Requests.play)
    assert claim(bench).urgency is Urgency.STARTS
    await bench.run(1)
    assert others < claim(bench)
    assert claim(bench).urgency is Urgency.PLAYS


async def test_who_was_not_heard_for_a_while_comes_behind_those_who_play() -> None:
    bench = SleepBench({"a": seconds(60)}, "a", sleeps=False)
    leave = bench.player.attach(MemoryListener())
    await bench.run(1)
    leave()
    assert claim(bench).urgency is Urgency.UNHEARD
    await bench.run(1)
    others = Claim(Urgency.PLAYS, bench.pool.next_claim())
    bench.listen()
    assert claim(bench).urgency is Urgency.STARTS
    await bench.run(1)
    assert others < claim(bench)


async def test_an_overlay_in_a_pause_is_heard() -> None:
    bench = SleepBench({"a": seconds(60), "clip": seconds(5)}, "a")
    bench.listen()
    await bench.run(1)
    bench.player.do(Requests.pause)
    await bench.run(1)
    assert claim(bench).urgency is Urgency.UNHEARD
    bench.player.add_overlays((bench.new_track("clip"), OverlaySettings()))
    assert claim(bench).urgency is Urgency.STARTS

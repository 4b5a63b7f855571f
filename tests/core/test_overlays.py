"""The rules of overlays: when they may sound, and against a model in whatever order reports come."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.examples import examples
from tests.support.tracks import CONNECTION_LOST, FILE_MISSING, make_track
from tonearm.core.errors import LimitReached, OverlayNotFound
from tonearm.core.events import Event, OverlayEnd, OverlayEndReason, OverlayException, OverlayStart
from tonearm.core.failure import ENDED_WITHOUT_AUDIO, PlayFailure
from tonearm.core.overlays import MAX_OVERLAYS, Overlays, OverlaySettings, OverlayState
from tonearm.core.track_info import SourceFacts

FIRST = 100
FINISHED, STOPPED, LOAD_FAILED = OverlayEndReason


def test_those_that_are_added_together_wait_for_each_other() -> None:
    overlays = Overlays(FIRST)
    assert overlays.add((make_track("a"), OverlaySettings())) == (FIRST,)
    assert [*overlays.ready] == []
    overlays.opened(FIRST, SourceFacts(1_234))
    assert overlays.status(FIRST, 0).track.info.length_ms == 1_234
    overlays.got_audio(FIRST)
    new = [(make_track(name), OverlaySettings()) for name in "bcd"]
    b, c, d = overlays.add(*new)
    overlays.got_audio(c)
    overlays.got_audio(b)
    assert [ready.source for ready in overlays.ready] == [FIRST]
    overlays.failed(d, FILE_MISSING)  # nobody waits for what never comes
    assert [ready.source for ready in overlays.ready] == [FIRST, b, c]
    with pytest.raises(LimitReached, match="has 3 overlays, and 8 can play at once"):
        overlays.add(*new, *new)
    assert len(overlays) == 3


class AnyOrder(RuleBasedStateMachine):
    """Requests and reports in any order: each overlay has at most one start, before its one end, and then is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.overlays = Overlays(FIRST)
        self.ids: dict[int, str] = {}  # by source, of all there ever were
        self.alive: dict[int, set[str]] = {}  # with what was reported of it

    @rule()
    def add(self) -> None:
        name = f"overlay{len(self.ids)}"
        if len(self.alive) == MAX_OVERLAYS:
            with pytest.raises(LimitReached):
                self.overlays.add((make_track(name), OverlaySettings()))
            return
        (source,) = self.overlays.add((make_track(name), OverlaySettings()))
        assert source not in self.ids
        self.ids[source], self.alive[source] = name, set()

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), report=st.sampled_from(["got_audio", "began", "ended", "decoded", "failed", "interrupted"]))
    def report(self, data: st.DataObject, report: str) -> None:
        source = data.draw(st.sampled_from([*self.ids]))
        name, before = self.ids[source], frozenset(self.alive.get(source, ()))

        def fails(failure: PlayFailure) -> tuple[Event, ...]:
            return OverlayException(name, failure), OverlayEnd(name, LOAD_FAILED)

        told, expected = tuple[Event, ...](), tuple[Event, ...]()
        match report:
            case "got_audio":
                assert self.overlays.got_audio(source) is (source in self.alive and report not in before)
            case "interrupted":
                self.overlays.interrupted(source, CONNECTION_LOST)
            case "failed":
                told, expected = self.overlays.failed(source, FILE_MISSING), fails(FILE_MISSING)
            case "began":
                told, expected = self.overlays.began(source), () if report in before else (OverlayStart(name),)
            case "ended":  # what is interrupted sounds as far as it was decoded
                told = self.overlays.ended(source)
                expected = fails(CONNECTION_LOST) if "interrupted" in before else (OverlayEnd(name, FINISHED),)
            case "decoded":
                told = self.overlays.decoded(source)
                expected = () if "got_audio" in before else fails(ENDED_WITHOUT_AUDIO)
        assert told == (expected if source in self.alive else ())
        if any(isinstance(event, OverlayEnd) for event in told):
            del self.alive[source]
        elif source in self.alive:
            self.alive[source].add(report)

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        source = data.draw(st.sampled_from([*self.ids]))
        if self.alive.pop(source, None) is None:
            with pytest.raises(OverlayNotFound):
                self.overlays.remove(self.ids[source])
        else:
            assert self.overlays.remove(self.ids[source]) == (OverlayEnd(self.ids[source], STOPPED),)

    @rule()
    def remove_all(self) -> None:
        assert self.overlays.remove_all() == tuple(OverlayEnd(self.ids[source], STOPPED) for source in self.alive)
        self.alive.clear()

    @invariant()
    def holds(self) -> None:
        assert self.overlays.sources == tuple(self.alive)
        for source, reports in self.alive.items():
            state = OverlayState.PLAYING if "began" in reports else OverlayState.LOADING
            assert self.overlays.status(source, 0).state is state


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=examples(60), stateful_step_count=30)

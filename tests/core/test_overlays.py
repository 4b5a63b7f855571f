"""The rules of overlays: their life as a table, and against a model in whatever order reports come."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.support.examples import examples
from tests.support.tracks import CONNECTION_LOST, FILE_MISSING, make_track
from tonearm.core.errors import LimitReached, OverlayNotFound
from tonearm.core.events import Event, OverlayEnd, OverlayEndReason, OverlayException, OverlayStart
from tonearm.core.failure import ENDED_WITHOUT_AUDIO
from tonearm.core.overlays import MAX_OVERLAYS, Overlays, OverlaySettings, OverlayState
from tonearm.core.track_info import SourceFacts

FIRST = 100
FINISHED, STOPPED, LOAD_FAILED = OverlayEndReason


def with_one(*, sounds: bool = False) -> Overlays:
    overlays = Overlays(FIRST)
    assert overlays.add((make_track("a"), OverlaySettings())) == (FIRST,)
    if sounds:
        assert overlays.got_audio(FIRST)
        assert overlays.began(FIRST) == (OverlayStart("a"),)
    return overlays


def test_it_may_sound_once_it_has_audio_and_is_over_with_its_last_frame() -> None:
    overlays = with_one()
    assert [*overlays.ready] == []
    assert overlays.status(FIRST, 0).state is OverlayState.LOADING
    assert overlays.got_audio(FIRST)
    assert [ready.source for ready in overlays.ready] == [FIRST]
    assert overlays.began(FIRST) == (OverlayStart("a"),)
    assert overlays.status(FIRST, 20).state is OverlayState.PLAYING
    assert not overlays.got_audio(FIRST)  # once more, of a process that took over
    assert overlays.began(FIRST) == ()
    assert overlays.decoded(FIRST) == ()
    assert overlays.ended(FIRST) == (OverlayEnd("a", FINISHED),)
    assert not len(overlays)


def test_a_source_without_audio_fails() -> None:
    ends = (OverlayException("a", ENDED_WITHOUT_AUDIO), OverlayEnd("a", LOAD_FAILED))
    assert with_one().decoded(FIRST) == ends


@pytest.mark.parametrize("sounds", [False, True])
def test_a_failure_ends_it(sounds: bool) -> None:
    ends = (OverlayException("a", FILE_MISSING), OverlayEnd("a", LOAD_FAILED))
    assert with_one(sounds=sounds).failed(FIRST, FILE_MISSING) == ends


def test_what_is_interrupted_sounds_as_far_as_it_was_decoded() -> None:
    overlays = with_one(sounds=True)
    overlays.interrupted(FIRST, CONNECTION_LOST)
    assert len(overlays) == 1
    assert overlays.ended(FIRST) == (OverlayException("a", CONNECTION_LOST), OverlayEnd("a", LOAD_FAILED))


@pytest.mark.parametrize("sounds", [False, True])
def test_it_is_taken_away_by_its_id(sounds: bool) -> None:
    overlays = with_one(sounds=sounds)
    with pytest.raises(OverlayNotFound):
        overlays.remove("b")
    assert overlays.remove("a") == (OverlayEnd("a", STOPPED),)
    with pytest.raises(OverlayNotFound):
        overlays.remove("a")


def test_those_that_are_added_together_wait_for_each_other() -> None:
    overlays = with_one(sounds=True)
    new = [(make_track(name), OverlaySettings()) for name in "bcd"]
    b, c, d = overlays.add(*new)
    assert overlays.got_audio(c)
    assert overlays.got_audio(b)
    assert [ready.source for ready in overlays.ready] == [FIRST]
    overlays.failed(d, FILE_MISSING)  # nobody waits for what never comes
    assert [ready.source for ready in overlays.ready] == [FIRST, b, c]
    with pytest.raises(LimitReached, match="has 3 overlays, and 8 can play at once"):
        overlays.add(*new, *new)
    assert len(overlays) == 3


def test_opening_tells_its_length() -> None:
    overlays = with_one()
    overlays.opened(FIRST, SourceFacts(1_234))
    assert overlays.status(FIRST, 0).track.info.length_ms == 1_234


class AnyOrder(RuleBasedStateMachine):
    """Requests and reports in any order: each overlay has at most one start, before its one end, and then is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.overlays = Overlays(FIRST)
        self.ids: dict[int, str] = {}  # by source, of all there ever were
        self.alive: dict[int, list[type[Event]]] = {}
        self.over: dict[int, list[type[Event]]] = {}

    def take(self, events: tuple[Event, ...]) -> None:
        for event in events:
            assert isinstance(event, OverlayStart | OverlayEnd | OverlayException)
            source = next(source for source, name in self.ids.items() if name == event.overlay_id)
            told = self.alive[source]
            told.append(type(event))
            if isinstance(event, OverlayEnd):
                assert (OverlayException in told) == (event.reason is LOAD_FAILED)
                self.over[source] = self.alive.pop(source)

    @rule()
    def add(self) -> None:
        name = f"overlay{len(self.ids)}"
        if len(self.alive) == MAX_OVERLAYS:
            with pytest.raises(LimitReached):
                self.overlays.add((make_track(name), OverlaySettings()))
            return
        (source,) = self.overlays.add((make_track(name), OverlaySettings()))
        assert source not in self.ids
        self.ids[source], self.alive[source] = name, []

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), report=st.sampled_from(["got_audio", "began", "ended", "decoded", "failed", "interrupted"]))
    def report(self, data: st.DataObject, report: str) -> None:
        source = data.draw(st.sampled_from([*self.ids]))
        match report:
            case "got_audio":
                self.overlays.got_audio(source)
            case "interrupted":
                self.overlays.interrupted(source, CONNECTION_LOST)
            case "failed":
                self.take(self.overlays.failed(source, CONNECTION_LOST))
            case "began":
                self.take(self.overlays.began(source))
            case "ended":
                self.take(self.overlays.ended(source))
            case "decoded":
                self.take(self.overlays.decoded(source))

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        source = data.draw(st.sampled_from([*self.ids]))
        if source in self.alive:
            self.take(self.overlays.remove(self.ids[source]))
        else:
            with pytest.raises(OverlayNotFound):
                self.overlays.remove(self.ids[source])

    @rule()
    def remove_all(self) -> None:
        self.take(self.overlays.remove_all())
        assert not self.alive

    @invariant()
    def holds(self) -> None:
        assert self.overlays.sources == tuple(self.alive)
        for told in (*self.alive.values(), *self.over.values()):
            assert told.count(OverlayStart) <= 1
            assert OverlayStart not in told[1:]
        for told in self.over.values():
            assert told[-1] is OverlayEnd
            assert told.count(OverlayEnd) == 1


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=examples(60), stateful_step_count=30)

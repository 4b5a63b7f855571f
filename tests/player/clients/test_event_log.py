"""A player's events: numbered without gaps, kept for clients that come back."""

import itertools
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.hand_time import HandTime, Timer
from tests.support.sinks import MemoryEventClient, break_off
from tests.support.tracks import make_status, make_track
from tonearm.core.events import (
    Event,
    FiltersChange,
    MetadataChange,
    PlayerDelete,
    PlayerPause,
    PlayerState,
    PlayerUpdate,
    QueueUpdate,
    StreamTitle,
    TrackEnd,
    TrackStart,
)
from tonearm.core.filters import Filters
from tonearm.core.play_queue import EndReason
from tonearm.core.track_info import SourceFacts
from tonearm.player.clients.event_feed import EventFeed
from tonearm.player.clients.event_log import KEPT_EVENTS, MAX_KEPT_BYTES, MISSED_SLICE_EVENTS, EventLog
from tonearm.protocol.wire_model import json_bytes


def new_log(time: HandTime | None = None, max_bytes: int = MAX_KEPT_BYTES) -> EventLog:
    """Without a `time` all that waits for the loop is done at once."""

    def at_once(delay_s: float, call: Callable[[], None]) -> Timer:
        call()
        return Timer(call)

    call_later = at_once if time is None else time.call_later
    feed, times_ms = EventFeed(call_later, lambda: 0), itertools.count(1_700_000_000_001)
    return EventLog("p", "1ife", lambda: next(times_ms), json_bytes, feed, max_bytes, call_later)


@pytest.fixture
def log() -> EventLog:
    return new_log()


def add(log: EventLog, count: int) -> None:
    for _ in range(count):
        log.add(QueueUpdate(log.last_seq + 1, version=1))


def subscribe(
    log: EventLog, client: MemoryEventClient, since: int | None, *, snapshot: bool = False, life: str | None = None
) -> Callable[[], None]:
    return log.subscribe(client, since, snapshot, lambda: make_status("p", last_seq=log.last_seq), life)


def follow(log: EventLog, since: int | None = None, **more: Any) -> MemoryEventClient:
    client = MemoryEventClient()
    subscribe(log, client, since, **more)
    return client


def test_clients_may_leave_while_an_event_is_sent_and_are_closed_once(log: EventLog) -> None:
    first, second, third = follow(log), MemoryEventClient(), follow(log)
    first.on_send = leave = subscribe(log, second, None)
    log.add(StreamTitle("a", "Ä"))
    leave()
    log.close(1000, "the player was deleted")
    log.close(1001, "the node is shutting down")
    log.add(PlayerPause(0))
    text = '{"op":"StreamTitle","id":"p","seq":1,"time":1700000000001,"trackId":"a","title":"Ä","life":"1ife"}'
    assert (first.texts, second.texts, third.texts) == ([text], [], [text])
    assert first.closed == third.closed == [(1000, "the player was deleted")]


@pytest.mark.parametrize(
    ("added", "since", "more", "expected"),
    [
        (5, None, {}, []),
        (5, None, {"snapshot": True}, ["state"]),
        (0, 1, {}, ["lost"]),
        (5, 3, {}, [4, 5]),
        (5, 3, {"snapshot": True}, [4, 5]),
        (5, 3, {"life": "other"}, ["lost"]),
        (5, 5, {"snapshot": True}, []),
        (5, 6, {"snapshot": True}, ["lost"]),
        (KEPT_EVENTS + 1, 0, {}, ["lost"]),
        (KEPT_EVENTS + 1, 1, {}, list(range(2, KEPT_EVENTS + 2))),
        (1000, 1000 - KEPT_EVENTS, {}, list(range(1001 - KEPT_EVENTS, 1001))),
    ],
)
def test_coming_back(log: EventLog, added: int, since: int | None, more: Any, expected: list[int | str]) -> None:
    add(log, added)
    client = follow(log, since, **more)
    if expected in (["lost"], ["state"]):
        (state,) = client.events
        assert (state["op"], state.get("lost", False), state["seq"]) == ("PlayerState", expected == ["lost"], added)
        assert state["state"] == "loading"
    else:
        assert client.seqs == expected
        assert [event["length"] for event in client.events] == expected
    log.add(PlayerPause(0))
    assert (client.ops[-1], client.seqs[-1]) == ("PlayerPause", added + 1)


@pytest.mark.parametrize(("waits", "most"), [("pending", KEPT_EVENTS), ("unsent_bytes", 20_000)])
def test_a_client_256_events_or_twice_the_budget_behind_is_closed(waits: str, most: int) -> None:
    log = new_log(max_bytes=10_000)
    slow, quick = follow(log), follow(log)
    for waiting in (most - 1, most, most):
        setattr(slow, waits, waiting)
        add(log, 1)
    assert [code for code, _ in slow.closed] == [1013]
    assert (slow.seqs, quick.seqs) == ([1], [1, 2, 3])


@pytest.mark.parametrize(
    "text", ["\ud800", "a\udfffb", "\udce4\udcf6", "\x00\x1f\x7f", "\u2028", "😀", '"\\', "ä" * 70_000]
)
def test_texts_of_any_kind_arrive_and_a_client_that_comes_back_gets_the_very_same(log: EventLog, text: str) -> None:
    stayed = follow(log)
    log.add(StreamTitle("a", text))
    log.add(MetadataChange({text: [text, {"in": text}]}))
    assert stayed.events[0]["title"] == text
    assert stayed.events[1]["metadata"] == {text: [text, {"in": text}]}
    track = make_track("a").with_facts(SourceFacts(20_000, is_seekable=True, title="Ä song", probe_name="flac"))
    log.add(TrackStart(track, {"requester": text}, 0))
    log.add(PlayerUpdate(PlayerState.PLAYING, False, 5000))
    log.add(FiltersChange(Filters(volume=0.5)))
    log.add(TrackEnd(track, {}, 20_000, EndReason.FINISHED, 20_000))
    log.add(PlayerDelete())
    assert follow(log, 0).texts == stayed.texts


@pytest.mark.parametrize(
    ("event", "kept"),
    [
        (MetadataChange("x" * 2900), 3),
        (MetadataChange("x" * 50_000), 1),  # one is kept however long it is
        (TrackStart(make_track("a"), {"x": "y" * 3500}, 0), 2),  # counts as long as it is shown
    ],
)
def test_kept_events_have_a_budget_in_bytes_and_the_oldest_go_first(event: Event, kept: int) -> None:
    log = new_log(max_bytes=10_000)
    for _ in range(20):
        log.add(event)
    assert follow(log, 20 - kept).seqs == list(range(21 - kept, 21))
    assert follow(log, 19 - kept).events[0]["lost"] is True
    add(log, 5)  # small ones
    assert follow(log, 20).seqs == [21, 22, 23, 24, 25]


def test_what_a_client_missed_comes_in_slices_and_before_all_that_is_new() -> None:
    time = HandTime()
    log = new_log(time)
    add(log, 200)
    client, gone = follow(log, since=10), MemoryEventClient()
    subscribe(log, gone, 10)()
    assert client.seqs == list(range(11, 11 + MISSED_SLICE_EVENTS))
    add(log, 3)  # more than are sent at a stretch, and as many as lets old ones go
    add(log, KEPT_EVENTS)
    time.forward(0.0)
    assert client.seqs == list(range(11, 204 + KEPT_EVENTS))
    add(log, 1)
    assert client.seqs[-1] == log.last_seq
    assert not client.closed
    assert len(gone.events) == MISSED_SLICE_EVENTS


def test_a_slice_of_what_a_client_missed_ends_with_so_many_bytes() -> None:
    log = new_log(HandTime())
    for number in range(10):
        log.add(MetadataChange({"x": "y" * 30_000, "number": number}))
    client, broken = follow(log, since=0), follow(log, since=0)
    assert len(client.events) == 3
    broken.on_send = break_off  # and keeps no other from the close
    log.close(1000, "the player was deleted")
    assert client.seqs == list(range(1, 11))
    assert client.closed == [(1000, "the player was deleted")]


@pytest.mark.parametrize("slices", [None, 0, 1])
def test_a_client_that_raises_is_cut_and_logged_once(slices: int | None, caplog: pytest.LogCaptureFixture) -> None:
    """In what is new, or in what it missed."""
    time, cut = HandTime(), list[bool]()
    log = new_log(time)
    add(log, 200)
    sound, broken = follow(log), MemoryEventClient()
    broken.abort = lambda: cut.append(True)  # type: ignore[method-assign]
    if slices == 0:
        broken.on_send = break_off
    subscribe(log, broken, None if slices is None else 10)
    broken.on_send = break_off
    with caplog.at_level(logging.ERROR):
        time.forward(0.0)
        add(log, 3)
    assert sound.seqs == [201, 202, 203]
    assert len(broken.events) == (slices or 0) * MISSED_SLICE_EVENTS + 1
    assert len(cut) == len(caplog.records) == len(log) == 1

"""A player's events: numbered without gaps, kept for clients that come back."""

import json
import logging
from collections.abc import Callable

import pytest

from tests.support.hand_time import HandTime
from tests.support.sinks import MemoryEventClient, break_off
from tests.support.tracks import make_status, make_track
from tonearm.core.call_later import CallLater
from tonearm.core.events import (
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
from tonearm.core.metadata import JsonObject
from tonearm.core.play_queue import EndReason
from tonearm.core.player_status import PlayerStatus
from tonearm.core.track_info import SourceFacts
from tonearm.player.clients.event_feed import EventFeed
from tonearm.player.clients.event_log import KEPT_EVENTS, MAX_KEPT_BYTES, MISSED_SLICE_EVENTS, EventLog
from tonearm.protocol.wire_model import json_bytes


class Times:
    """A time of day that goes on by a millisecond whenever it is asked for."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def wall_ms(self) -> int:
        self.now_ms += 1
        return self.now_ms


class _Made:
    def cancel(self) -> None: ...


def at_once(delay_s: float, call: Callable[[], None]) -> _Made:
    call()
    return _Made()


def new_log(call_later: CallLater = at_once, max_bytes: int = MAX_KEPT_BYTES) -> EventLog:
    feed = EventFeed(call_later, lambda: 0)
    return EventLog("p", "1ife", Times().wall_ms, json_bytes, feed, max_bytes, call_later)


@pytest.fixture
def log() -> EventLog:
    return new_log()


def add(log: EventLog, count: int) -> None:
    for _ in range(count):
        log.add(QueueUpdate(log.last_seq + 1, version=1))


def status(log: EventLog) -> PlayerStatus:
    return make_status("p", last_seq=log.last_seq)


def follow(log: EventLog, since: int | None = None, *, snapshot: bool = False) -> MemoryEventClient:
    client = MemoryEventClient()

    log.subscribe(client, since, snapshot, lambda: status(log))
    return client


def test_an_event_is_an_object_with_its_head_first(log: EventLog) -> None:
    client = follow(log)
    log.add(StreamTitle("a", "Ä"))
    assert client.texts == [
        '{"op":"StreamTitle","id":"p","seq":1,"time":1700000000001,"trackId":"a","title":"Ä","life":"1ife"}'
    ]


def test_events_are_numbered_from_1_without_gaps_for_every_client(log: EventLog) -> None:
    first = follow(log)
    add(log, 3)
    second = follow(log)
    add(log, 3)
    assert first.seqs == [1, 2, 3, 4, 5, 6]
    assert second.seqs == [4, 5, 6]
    assert [event["length"] for event in first.events] == first.seqs


@pytest.mark.parametrize(
    ("added", "since", "expected"),
    [
        (0, 0, []),
        (0, 1, ["lost"]),
        (5, 0, [1, 2, 3, 4, 5]),
        (5, 3, [4, 5]),
        (5, 4, [5]),
        (5, 5, []),
        (5, 6, ["lost"]),
        (5, 10**18, ["lost"]),
        (KEPT_EVENTS, 0, list(range(1, KEPT_EVENTS + 1))),
        (KEPT_EVENTS + 1, 0, ["lost"]),
        (KEPT_EVENTS + 1, 1, list(range(2, KEPT_EVENTS + 2))),
        (1000, 1000 - KEPT_EVENTS - 1, ["lost"]),
        (1000, 1000 - KEPT_EVENTS, list(range(1001 - KEPT_EVENTS, 1001))),
        (1000, 999, [1000]),
    ],
)
def test_coming_back(log: EventLog, added: int, since: int, expected: list[object]) -> None:
    add(log, added)
    client = follow(log, since)
    if expected == ["lost"]:
        assert [(event["op"], event["lost"], event["seq"]) for event in client.events] == [("PlayerState", True, added)]
        assert client.events[0]["state"] == "loading"
    else:
        assert client.seqs == expected
        assert set(client.ops) <= {"QueueUpdate"}
    log.add(PlayerPause(0))
    assert (client.ops[-1], client.seqs[-1]) == ("PlayerPause", added + 1)


@pytest.mark.parametrize("metadata", [{}, {"requester": "Ä", "guild": [1, 2]}])
def test_a_client_that_comes_back_gets_the_very_texts_of_one_that_stayed(log: EventLog, metadata: JsonObject) -> None:
    stayed = follow(log)
    track, facts = make_track("a"), SourceFacts(20_000, is_seekable=True, title="Ä song", probe_name="flac")
    for _ in range(50):
        track = track.with_facts(facts)
        log.add(TrackStart(track, metadata, 0))
        log.add(PlayerUpdate(PlayerState.PLAYING, False, 5000))
        log.add(MetadataChange(metadata))
        log.add(FiltersChange(Filters(volume=0.5)))
        log.add(TrackEnd(track, metadata, 20_000, EndReason.FINISHED, 20_000))
    log.add(PlayerDelete())
    assert follow(log, 10).texts == stayed.texts[10:]


def test_a_snapshot_comes_first_and_only_when_asked_for(log: EventLog) -> None:
    add(log, 4)
    with_snapshot, without = follow(log, snapshot=True), follow(log)
    log.add(PlayerPause(0))
    assert with_snapshot.ops == ["PlayerState", "PlayerPause"]
    assert with_snapshot.seqs == [4, 5]
    assert "lost" not in with_snapshot.events[0]
    assert without.ops == ["PlayerPause"]


@pytest.mark.parametrize(("since", "expected"), [(2, ["QueueUpdate", "QueueUpdate"]), (4, []), (5, ["PlayerState"])])
def test_a_snapshot_comes_only_where_what_was_missed_is_gone(log: EventLog, since: int, expected: list[str]) -> None:
    add(log, 4)
    client = follow(log, since, snapshot=True)
    assert client.ops == expected
    assert [event["lost"] for event in client.events if event["op"] == "PlayerState"] == [True] * (since == 5)


@pytest.mark.parametrize(("life", "expected"), [("1ife", [3, 4]), (None, [3, 4]), ("other", ["lost"])])
def test_a_client_goes_on_in_the_same_life_only(log: EventLog, life: str | None, expected: list[object]) -> None:
    add(log, 4)
    client = MemoryEventClient()
    log.subscribe(client, 2, False, lambda: status(log), life)
    assert [(event.get("lost", False) and "lost") or event["seq"] for event in client.events] == expected


def test_a_client_256_events_behind_is_closed(log: EventLog) -> None:
    slow, quick = follow(log), follow(log)
    slow.pending = KEPT_EVENTS - 1
    add(log, 1)
    assert slow.closed == []
    slow.pending = KEPT_EVENTS
    add(log, 2)
    assert [code for code, _ in slow.closed] == [1013]
    assert slow.seqs == [1]
    assert quick.seqs == [1, 2, 3]


def test_every_client_is_closed_once(log: EventLog) -> None:
    clients = [follow(log) for _ in range(3)]
    log.close(1000, "the player was deleted")
    log.close(1001, "the node is shutting down")
    log.add(PlayerPause(0))
    assert all(client.closed == [(1000, "the player was deleted")] for client in clients)
    assert all(client.events == [] for client in clients)


def test_clients_may_leave_while_an_event_is_sent(log: EventLog) -> None:
    first, second = MemoryEventClient(), MemoryEventClient()
    log.subscribe(first, None, False, lambda: status(log))
    cancel = log.subscribe(second, None, False, lambda: status(log))
    first.on_send = cancel
    add(log, 2)
    assert (first.seqs, second.seqs) == ([1, 2], [])
    cancel()


def test_a_client_that_raises_is_cut_and_logged_once(log: EventLog, caplog: pytest.LogCaptureFixture) -> None:
    broken, sound = follow(log), follow(log)
    cut: list[bool] = []

    broken.on_send = break_off
    broken.abort = lambda: cut.append(True)  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR):
        add(log, 3)
    assert sound.seqs == [1, 2, 3]
    assert broken.seqs == [1]
    assert cut == [True]
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "text", ["\ud800", "a\udfffb", "\udce4\udcf6", "\x00\x1f\x7f", "\u2028", "😀", '"\\', "ä" * 70_000]
)
def test_texts_of_any_kind_arrive(log: EventLog, text: str) -> None:
    client = follow(log)
    log.add(StreamTitle("a", text))
    log.add(MetadataChange({text: [text, {"in": text}]}))
    assert client.events[0]["title"] == text
    assert client.events[1]["metadata"] == {text: [text, {"in": text}]}
    back = follow(log, 0)
    assert json.loads(back.texts[0])["title"] == text


def log_in_slices(events: int) -> tuple[HandTime, EventLog]:
    time = HandTime()
    log = new_log(time.call_later)
    add(log, events)
    return time, log


def test_kept_events_have_a_budget_in_bytes_and_the_oldest_go_first() -> None:
    log = new_log(max_bytes=10_000)
    for number in range(20):
        log.add(MetadataChange(["x" * 2900, number]))
    assert follow(log, 17).seqs == [18, 19, 20]
    assert follow(log, 16).events[0]["lost"] is True
    add(log, 5)  # small ones
    assert follow(log, 19).seqs == [20, 21, 22, 23, 24, 25]


def test_one_event_is_kept_however_long_it_is() -> None:
    log = new_log(max_bytes=10_000)
    log.add(MetadataChange("x" * 50_000))
    assert follow(log, 0).seqs == [1]
    log.add(PlayerPause(0))
    assert follow(log, 1).seqs == [2]
    assert follow(log, 0).events[0]["lost"] is True


def test_tracks_with_metadata_count_as_long_as_they_are_shown() -> None:
    log = new_log(max_bytes=11_000)
    for _ in range(10):
        log.add(TrackStart(make_track("a"), {"x": "y" * 4000}, 0))
    assert follow(log, 8).seqs == [9, 10]
    assert follow(log, 7).events[0]["lost"] is True


def test_a_client_for_which_twice_the_budget_waits_is_closed() -> None:
    log = new_log(max_bytes=10_000)
    slow, quick = follow(log), follow(log)
    slow.unsent_bytes = 19_999
    add(log, 1)
    slow.unsent_bytes = 20_000
    add(log, 1)
    assert [code for code, _ in slow.closed] == [1013]
    assert (slow.seqs, quick.seqs) == ([1], [1, 2])


def test_what_a_client_missed_comes_in_slices_and_before_all_that_is_new() -> None:
    time, log = log_in_slices(200)
    client = follow(log, since=10)
    assert [event["seq"] for event in client.events] == list(range(11, 11 + MISSED_SLICE_EVENTS))
    add(log, 3)  # more than are sent at a stretch, and as many as lets old ones go
    add(log, KEPT_EVENTS)
    time.forward(0.0)
    assert [event["seq"] for event in client.events] == list(range(11, 204 + KEPT_EVENTS))
    add(log, 1)
    assert client.events[-1]["seq"] == log.last_seq
    assert not client.closed


def test_a_client_that_raises_in_what_it_missed_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    time, log = log_in_slices(200)
    cut: list[bool] = []

    for slices in (0, 1):
        broken = MemoryEventClient()
        broken.abort = lambda: cut.append(True)  # type: ignore[method-assign]
        if not slices:
            broken.on_send = break_off
        log.subscribe(broken, 10, False, lambda: status(log))
        broken.on_send = break_off
        with caplog.at_level(logging.ERROR):
            time.forward(0.0)
            add(log, 3)
        assert len(broken.events) == slices * MISSED_SLICE_EVENTS + 1
        assert len(cut) == len(caplog.records) == slices + 1
        assert not len(log)


def test_a_client_that_raises_in_what_it_missed_keeps_no_other_from_the_close() -> None:
    _, log = log_in_slices(200)
    broken, sound = follow(log, since=10), follow(log)

    broken.on_send = break_off
    log.close(1000, "bye")
    assert sound.closed == [(1000, "bye")]


def test_a_slice_of_what_a_client_missed_ends_with_so_many_bytes() -> None:
    time, log = log_in_slices(0)
    for number in range(10):
        log.add(MetadataChange({"x": "y" * 30_000, "number": number}))
    client = follow(log, since=0)
    assert len(client.events) == 3
    log.close(1000, "the player was deleted")
    assert [event["seq"] for event in client.events] == list(range(1, 11))
    assert client.closed == [(1000, "the player was deleted")]
    time.forward(0.0)


def test_a_client_that_leaves_is_sent_nothing_more_of_what_it_missed() -> None:
    time, log = log_in_slices(200)
    client = MemoryEventClient()
    leave = log.subscribe(client, 0, False, lambda: status(log))
    leave()
    time.forward(0.0)
    assert len(client.events) == MISSED_SLICE_EVENTS

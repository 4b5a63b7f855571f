"""The events of all players on one connection: nobody waits for a slow client, and it is told what it missed."""

import logging

import pytest

from tests.support.hand_time import HandTime
from tests.support.sinks import MemoryEventClient, break_off
from tonearm.core.events import EventMessage, QueueUpdate
from tonearm.player.clients.event_feed import (
    CAUGHT_UP_BYTES,
    CAUGHT_UP_EVENTS,
    MAX_BEHIND_BYTES,
    MAX_BEHIND_EVENTS,
    EventFeed,
)
from tonearm.protocol.event_rendering import event_text

LOST = '{"op":"EventsLost","time":5,"lost":true}'


def event(number: int) -> EventMessage:
    return EventMessage("p", "1ife", number, 0, QueueUpdate(0, version=1))


def events(*numbers: int) -> list[str]:
    return [event(number).text(event_text) for number in numbers]


@pytest.fixture
def time() -> HandTime:
    return HandTime()


@pytest.fixture
def feed(time: HandTime) -> EventFeed:
    return EventFeed(time.call_later, lambda: 5)


def followers(feed: EventFeed, count: int = 1) -> list[MemoryEventClient]:
    clients = [MemoryEventClient() for _ in range(count)]
    for client in clients:
        feed.subscribe(client)
    return clients


@pytest.mark.parametrize(
    ("waits", "most", "caught_up"),
    [("pending", MAX_BEHIND_EVENTS, CAUGHT_UP_EVENTS), ("unsent_bytes", MAX_BEHIND_BYTES, CAUGHT_UP_BYTES)],
)
def test_a_client_that_is_behind_misses_events_and_is_told_once(
    feed: EventFeed, waits: str, most: int, caught_up: int
) -> None:
    assert not feed.has_followers
    slow, quick = followers(feed, 2)
    for number, waiting in enumerate((most - 1, most, caught_up + 1, caught_up, caught_up), 1):
        setattr(slow, waits, waiting)
        feed.send(event(number))
    assert slow.texts == [*events(1), LOST, *events(4, 5)]
    assert quick.texts == events(1, 2, 3, 4, 5)
    leave = feed.subscribe(late := MemoryEventClient())
    feed.send(event(6))
    leave()
    leave()
    feed.send(event(7))
    assert late.texts == events(6)
    assert feed.has_followers


def test_a_client_is_told_without_another_event_and_costs_one_timer(feed: EventFeed, time: HandTime) -> None:
    (slow,) = followers(feed)
    gone = MemoryEventClient()
    leave = feed.subscribe(gone)
    gone.pending = MAX_BEHIND_EVENTS
    for _ in range(100):
        slow.pending = MAX_BEHIND_EVENTS
        feed.send(event(1))
        slow.pending = 0
        feed.send(event(2))
    assert slow.texts == [LOST, *events(2)] * 100
    leave()
    slow.pending = MAX_BEHIND_EVENTS
    feed.send(event(3))
    for _ in range(3):
        time.forward(1.0)
        assert time.waiting_timers == 1
    slow.pending = gone.pending = 0
    time.forward(1.0)
    time.forward(10.0)
    assert (slow.texts[200:], gone.texts, time.waiting_timers) == ([LOST], [], 0)


def test_a_client_that_raises_is_cut_and_the_others_are_closed_with_the_node(
    feed: EventFeed, caplog: pytest.LogCaptureFixture
) -> None:
    broken, broken_at_the_end, sound = followers(feed, 3)
    cut: list[bool] = []
    broken.on_send = break_off
    broken_at_the_end.close = break_off  # type: ignore[method-assign]
    broken_at_the_end.abort = lambda: cut.append(True)  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR):
        feed.send(event(1))
        feed.send(event(2))
        assert len(caplog.records) == 1
        feed.close(1001, "the node is shutting down")
    feed.send(event(3))
    assert (sound.texts, sound.closed) == (events(1, 2), [(1001, "the node is shutting down")])
    assert (cut, len(caplog.records)) == ([True], 2)

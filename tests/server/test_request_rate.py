"""How many requests may come from one place."""

from weakref import WeakSet

import pytest

from tests.support.edge import StillNode, running_edge
from tests.support.http_client import request
from tonearm.server.access import RequestRates
from tonearm.server.app import EdgeSettings

ONE_IN_AN_HOUR = 1 / 3600


class Place(str):
    """One of which can be told whether anybody knows it, and how often it was looked at."""

    looks = 0

    def __hash__(self) -> int:
        self.looks += 1
        return super().__hash__()


def test_a_place_has_what_it_may_and_gets_it_back_with_time() -> None:
    rates = RequestRates(10)
    assert [not rates.wait_s("a", 0.0) for _ in range(12)] == [True] * 10 + [False] * 2
    assert not rates.wait_s("b", 0.0)
    assert [not rates.wait_s("a", 0.25) for _ in range(3)] == [True, True, False]
    assert sum(not rates.wait_s("a", 60.0) for _ in range(50)) == 10


def test_less_than_one_a_second_and_none_at_all() -> None:
    slow = RequestRates(0.5)
    assert [not slow.wait_s("a", time_s) for time_s in (0.0, 1.0, 2.0)] == [True, False, True]
    assert not any(RequestRates(0).wait_s("a", 0.0) for _ in range(100))


def test_places_that_were_quiet_are_forgotten() -> None:
    rates, known = RequestRates(10), WeakSet[Place]()
    for number in range(10_001):
        known.add(place := Place(number))
        rates.wait_s(place, float(number))
    assert len(known) < 5


def test_a_flood_from_many_places_costs_each_request_little() -> None:
    rates = RequestRates(10)
    places = [Place(number) for number in range(10_100)]
    for number, place in enumerate(places):
        rates.wait_s(place, number / 1e6)
    assert sum(place.looks for place in places) < 10 * len(places)
    assert [not rates.wait_s(places[0], 0.011) for _ in range(10)] == [True] * 9 + [False]
    for place in places:
        place.looks = 0
    rates.wait_s("later", 10.0)
    assert sum(place.looks for place in places) < 20, "not all of them at once"


@pytest.mark.parametrize("open_paths", [(), ("/healthz", "/readyz")])
async def test_a_flood_costs_no_supervisor_its_answer(node: StillNode, open_paths: tuple[str, ...]) -> None:
    settings = EdgeSettings(password="right", open_paths=open_paths, requests_per_second=ONE_IN_AN_HOUR)
    headers = () if open_paths else (("Authorization", "right"),)
    async with running_edge(node, settings) as port:

        async def answered(path: str, password: str) -> int:
            return (await request(port, "GET", path, headers=(("Authorization", password),))).status

        for method in ("GET", "HEAD"):
            for path in ("/healthz", "/readyz"):
                assert (await request(port, method, path, headers=headers)).status in (200, 503)
        assert [await answered("/metrics", "right") for _ in range(2)] == [200, 429]
        for path in ("/healthz", "/readyz"):
            assert (await request(port, "GET", path, headers=headers)).status in (200, 503)


async def test_a_password_is_guessed_nowhere_for_free(node: StillNode) -> None:
    settings = EdgeSettings(password="right", requests_per_second=ONE_IN_AN_HOUR)
    async with running_edge(node, settings) as port:
        guesses = [await request(port, "GET", "/healthz", headers=(("Authorization", f"{n}"),)) for n in range(3)]
        assert [answer.status for answer in guesses] == [401, 429, 429]

"""How often somebody may ask, by address."""

from weakref import WeakSet

from tonearm.core.request_rates import RequestRates, origin_of


def test_what_counts_as_one_place() -> None:
    assert origin_of("::ffff:192.0.2.7") == origin_of("192.0.2.7") == "192.0.2.7"
    assert origin_of("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::/64"
    assert origin_of("fe80::1%eth0") == "fe80::/64"
    assert origin_of("") == ""


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
    hurried = RequestRates(0.5, at_once=3)
    may = [not hurried.wait_s("a", time_s) for time_s in (0.0, 0.0, 0.0, 0.0, 2.0, 2.0)]
    assert may == [True, True, True, False, True, False]
    slow = RequestRates(0.5)
    assert [not slow.wait_s("a", time_s) for time_s in (0.0, 1.0, 2.0)] == [True, False, True]
    assert not any(RequestRates(0).wait_s("a", 0.0) for _ in range(100))


def test_a_flood_from_many_places_costs_each_request_little_and_quiet_ones_are_forgotten() -> None:
    rates, known = RequestRates(10), WeakSet[Place]()
    places = [Place(number) for number in range(10_100)]
    for number, place in enumerate(places):
        rates.wait_s(place, number / 1e6)
    assert sum(place.looks for place in places) < 10 * len(places)
    assert [not rates.wait_s(places[0], 0.011) for _ in range(10)] == [True] * 9 + [False]
    for place in places:
        place.looks = 0
    rates.wait_s("later", 10.0)
    assert sum(place.looks for place in places) < 20, "not all of them at once"
    places.clear()
    for number in range(30_000):
        known.add(place := Place(number))
        rates.wait_s(place, 20.0 + number)
    assert len(known) < 5

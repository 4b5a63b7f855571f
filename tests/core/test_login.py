"""Cookies of browsers that have logged in, and tries of wrong passwords, as tables."""

import pytest

from tonearm.core.login import STAY_S, LoginCookies, WrongTries

NOW_MS = 1_795_230_391_297
PORT = 2333


@pytest.mark.parametrize("stays", [True, False])
def test_a_cookie_is_known_by_its_node_until_it_is_old_or_all_are_ended(stays: bool) -> None:
    cookies = LoginCookies(b"lasting", b"passing")
    value = cookies.make(NOW_MS, PORT, stays=stays)
    assert cookies.knows(value, NOW_MS, PORT)
    assert cookies.knows(value, NOW_MS + STAY_S * 1000 - 1, PORT)
    assert not cookies.knows(value, NOW_MS + STAY_S * 1000, PORT)
    assert not cookies.knows(value, NOW_MS - 3_600_000, PORT)
    assert not cookies.knows(value, NOW_MS, PORT + 1)
    assert LoginCookies(b"lasting", b"after a restart").knows(value, NOW_MS, PORT) is stays
    assert not LoginCookies(b"other", b"other").knows(value, NOW_MS, PORT)
    ended_ms = cookies.end_all(NOW_MS)
    assert not cookies.knows(value, NOW_MS, PORT)
    assert not LoginCookies(b"lasting", b"passing", ended_ms).knows(value, NOW_MS, PORT)
    assert cookies.knows(cookies.make(NOW_MS, PORT, stays=stays), NOW_MS, PORT)  # in the same millisecond
    # The clock was two hours ahead at the last logout.
    before = cookies.make(NOW_MS + 7_200_000, PORT, stays=stays)
    cookies.end_all(NOW_MS + 7_200_000)
    value = cookies.make(NOW_MS, PORT, stays=stays)
    assert cookies.knows(value, NOW_MS, PORT)
    assert not cookies.knows(before, NOW_MS, PORT)
    cookies.end_all(NOW_MS)
    assert not cookies.knows(value, NOW_MS, PORT)


def test_nothing_else_is_known() -> None:
    cookies = LoginCookies(b"lasting", b"passing")
    value = cookies.make(NOW_MS, PORT, stays=True)
    kind, made, proof = value.split(".")
    for wrong in (
        *("", ".", "..", "stay", f"stay.{made}", f"stay.{made}.", f"here.{made}.{proof}", value[:-1], value + "0"),
        *(f"stay.{int(made) + 1}.{proof}", value.upper(), f"stay.0{made}.{proof}", f"{kind}.{'9' * 5000}.{proof}"),
        *(f"stay.-1.{proof}", f"stay.\N{ARABIC-INDIC DIGIT ONE}.{proof}", f" {value}", f"{value}.{proof}"),
        "é.\ud83d.ä",
    ):
        assert not cookies.knows(wrong, NOW_MS, PORT), wrong


def test_five_wrong_passwords_of_an_address_are_taken_in_a_minute_and_fifty_of_all() -> None:
    tries = WrongTries()
    told = []
    for number in range(5):
        assert tries.wait_s("a", number) == 0
        told.append(tries.note("a", number))
    assert told == [True, False, False, False, False]
    assert tries.wait_s("a", 4.0) == 56.0
    assert tries.wait_s("b", 4.0) == 0
    assert tries.wait_s("a", 60.0) == 0  # the first of them is forgotten
    assert tries.note("a", 60.0)  # and told again, after a minute
    assert tries.wait_s("a", 60.0) == 1.0
    for number in range(45):
        assert tries.wait_s(f"b{number}", 60.0) == 0
        assert tries.note(f"b{number}", 60.0)
    assert tries.wait_s("c", 60.0) == 1.0
    assert tries.wait_s("c", 64.5) == 0
    assert tries.wait_s("c", 600.0) == 0

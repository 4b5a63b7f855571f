"""When a player is forgotten."""

import pytest

from tonearm.core.forgotten import ForgottenPlayers


def test_a_player_is_forgotten_when_nobody_was_there_for_so_long() -> None:
    players = ForgottenPlayers(60.0)
    players.note_unattended(100.0, ["a", "b"])
    assert players.forgotten(159.9) == ()
    players.note_unattended(160.0, ["a", "b"])
    assert players.forgotten(160.0) == ("a", "b")


def test_one_that_is_spoken_to_is_given_the_whole_time_again() -> None:
    players = ForgottenPlayers(60.0)
    players.note_unattended(100.0, ["a"])
    players.spoken_to("a")
    players.note_unattended(130.0, ["a"])
    assert players.forgotten(189.0) == ()
    assert players.forgotten(190.0) == ("a",)
    assert players.is_forgotten("a", 190.0)
    players.spoken_to("a")
    assert not players.is_forgotten("a", 190.0)


def test_one_that_is_listened_to_is_given_the_whole_time_after_it() -> None:
    players = ForgottenPlayers(60.0)
    players.note_unattended(100.0, ["a"])
    players.note_unattended(150.0, [])
    players.note_unattended(200.0, ["a"])
    assert players.forgotten(250.0) == ()
    assert players.forgotten(260.0) == ("a",)


@pytest.mark.parametrize(("expire_s", "interval_s"), [(0.1, 0.05), (60.0, 3.0), (86_400.0, 60.0)])
def test_looks_are_frequent_enough_for_the_time(expire_s: float, interval_s: float) -> None:
    assert ForgottenPlayers(expire_s).interval_s == interval_s

"""When a player is forgotten."""

import pytest

from tonearm.core.forgotten import ForgottenPlayers


def test_a_player_is_forgotten_when_nobody_was_there_or_spoke_to_it_for_so_long() -> None:
    players = ForgottenPlayers(60.0)
    players.note_unattended(100.0, ["alone", "spoken to", "heard"])
    players.spoken_to("spoken to")
    players.note_unattended(130.0, ["alone", "spoken to"])
    players.note_unattended(150.0, ["alone", "spoken to", "heard"])
    for at_s, forgotten in ((159.9, ()), (160.0, ("alone",)), (190.0, ("alone", "spoken to"))):
        assert players.forgotten(at_s) == forgotten
    assert set(players.forgotten(210.0)) == {"alone", "spoken to", "heard"}
    assert players.is_forgotten("alone", 210.0)
    players.spoken_to("alone")
    assert not players.is_forgotten("alone", 210.0)


@pytest.mark.parametrize(("expire_s", "interval_s"), [(0.1, 0.05), (60.0, 3.0), (86_400.0, 60.0)])
def test_looks_are_frequent_enough_for_the_time(expire_s: float, interval_s: float) -> None:
    assert ForgottenPlayers(expire_s).interval_s == interval_s

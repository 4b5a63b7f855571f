import pytest

from tonearm.core.metadata import is_player_id


@pytest.mark.parametrize(
    ("player_ids", "are_allowed"),
    [
        (("a", "A.b_c~d:e@f+g-h", "...", "0" * 128), True),
        (("", ".", "..", "a/b", "a b", "ä", "a\n", "%41", "0" * 129, "a?b"), False),
    ],
)
def test_ids_are_what_a_path_can_name(player_ids: tuple[str, ...], are_allowed: bool) -> None:
    assert [is_player_id(player_id) for player_id in player_ids] == [are_allowed] * len(player_ids)

import copy

from hypothesis import given
from hypothesis import strategies as st

from tonearm.core.metadata import Json, apply_metadata, is_player_id, is_same_json

KEYS = st.sampled_from(["a", "b", "ä", ""])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


def reference_merge(target: Json, patch: Json) -> Json:
    """The pseudocode of RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = reference_merge(merged.get(name), value)
    return merged


@given(JSON_VALUES, JSON_VALUES)
def test_merging_follows_the_standard_and_changes_no_argument(existing: Json, value: Json) -> None:
    before = copy.deepcopy((existing, value))
    assert apply_metadata(existing, True, value) == reference_merge(existing, value)
    assert (existing, value) == before
    assert apply_metadata(existing, False, value) == value
    assert is_same_json(value, before[1])


def test_values_that_python_takes_for_equal_are_told_apart() -> None:
    pairs: list[tuple[Json, Json]] = [(1, True), (0, False), (1, 1.0), (None, {}), ([1], [1, 2]), ({"a": 1}, {"b": 1})]
    pairs.append(({"a": [1]}, {"a": [True]}))
    for left, right in pairs:
        assert not is_same_json(left, right), (left, right)


def test_ids_are_what_a_path_can_name() -> None:
    assert all(map(is_player_id, ("a", "A.b_c~d:e@f+g-h", "...", "0" * 128)))
    assert not any(map(is_player_id, ("", ".", "..", "a/b", "a b", "ä", "a\n", "%41", "0" * 129, "a?b")))

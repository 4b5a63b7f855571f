"""Metadata of players and tracks over HTTP: what is stored, shown and told."""

from typing import Any

from tests.support.audio_files import music, wav
from tests.support.e2e_players import create, enqueue, patch, refusal, state
from tests.support.e2e_sockets import following, listening
from tests.support.running_node import RunningNode

# Of RFC 7396, appendix A, all of which the rules are held against: what was there, the patch, what is there then.
RFC_7396: list[tuple[Any, Any, Any]] = [
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "foo"}, None, None),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


async def metadata(node: RunningNode, player: str) -> Any:
    return (await state(node, player))["metadata"]


async def test_the_examples_of_the_standard(node: RunningNode) -> None:
    await create(node, "p", "x.wav")
    assert await metadata(node, "p") == {}
    for before, change, after in RFC_7396:
        await patch(node, "p", "metadata", {"merge": False, "value": before})
        assert await metadata(node, "p") == before
        await patch(node, "p", "metadata", {"merge": True, "value": change})
        assert await metadata(node, "p") == after, (before, change)
        await patch(node, "p", "metadata", {"merge": False, "value": before})
        await patch(node, "p", "metadata", {"value": change})  # merging is the default
        assert await metadata(node, "p") == after


async def test_any_json_comes_back_as_it_was_given(node: RunningNode) -> None:
    values: list[object] = [{"a": {"b": [1, "ä", None, True, 1.5]}}, [], "", 0, False, None]
    values += ["\x00\x1f\u2028", "😀", {"\x7f ä": "\ufffe"}]
    for number, value in enumerate(values):
        await create(node, str(number), "x.wav", metadata=value)
    listed = (await node.request("GET", "/v0/players")).json()
    assert [player["metadata"] for player in listed] == values
    assert [player["track"]["userData"] for player in listed] == values
    async with following(node, "0") as tape:
        for value in values[1:]:
            await patch(node, "0", "metadata", {"merge": False, "value": value})
            assert (await tape.until("MetadataChange"))["metadata"] == value


async def test_wrong_patches_change_nothing(node: RunningNode) -> None:
    await create(node, "p", "x.wav", metadata={"kept": 1})
    bodies: list[object] = [{}, {"merge": True}, {"merge": "yes", "value": {}}, {"merge": 1, "value": {}}, [], None]
    for body in bodies:
        answer = await node.request("PATCH", "/v0/players/p/metadata", body)
        assert refusal(answer) == (400, "bad_request"), body
    assert await metadata(node, "p") == {"kept": 1}
    # Unknown fields are ignored.
    await patch(node, "p", "metadata", {"value": {"new": 2}, "unknown": 3})
    assert await metadata(node, "p") == {"kept": 1, "new": 2}


async def test_events_show_the_metadata_of_their_moment_and_changes_only(node: RunningNode) -> None:
    for name in ("one", "two"):
        (node.folder / f"{name}.wav").write_bytes(wav(music(0.3)))
    await create(node, "p", "one.wav", metadata={"of": "player"})
    await enqueue(node, "p", "two.wav", {"of": "two"})
    async with following(node, "p") as tape, listening(node, "p"):
        started = await tape.until("TrackStart")
        assert started["track"]["userData"] == {"of": "player"}
        await patch(node, "p", "metadata", {"value": {"more": 1}})
        assert (await tape.until("MetadataChange"))["metadata"] == {"of": "player", "more": 1}
        await patch(node, "p", "metadata", {"value": {"more": 1}})  # no change, no event
        ended = await tape.until("TrackEnd")
        assert ended["track"]["userData"] == {"of": "player", "more": 1}
        assert (await tape.until("TrackStart"))["track"]["userData"] == {"of": "two"}
        assert sum(event["op"] == "MetadataChange" for event in tape.events) == 1

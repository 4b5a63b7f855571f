"""Metadata of players and tracks over HTTP: what is stored, shown and told."""

from tests.support.audio_files import music, wav
from tests.support.e2e_players import create, enqueue, patch
from tests.support.e2e_sockets import following, listening
from tests.support.running_node import RunningNode


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

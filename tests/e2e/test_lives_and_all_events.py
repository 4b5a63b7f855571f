"""A player's life in states, events, `since` and history; the events of all players on one socket."""

from tests.support.audio_files import music, wav
from tests.support.e2e_players import create, delete, enqueue, order, refusal, state
from tests.support.e2e_sockets import following, following_all, listening
from tests.support.http_client import WEBSOCKET_HEADERS
from tests.support.running_node import RunningNode


async def test_one_socket_follows_all_players(node: RunningNode) -> None:
    (node.folder / "a.wav").write_bytes(wav(music(0.2)))
    await create(node, "before", "a.wav", paused=True)
    async with following_all(node) as tape, following_all(node, "?snapshot=true") as with_states:
        first = await with_states.until("PlayerState")
        assert (first["id"], first["seq"]) == ("before", 0)
        for player in ("one", "two"):
            await create(node, player, "a.wav")
            created = await tape.until("PlayerCreate", id=player)
            assert set(created) == {"op", "id", "time", "life"}
            assert created["life"] == (await state(node, player))["life"]
        async with following(node, "one", "?since=0") as own, listening(node, "one"), listening(node, "two"):
            await tape.until("PlayerUpdate", state="idle")
            await tape.until("PlayerUpdate", state="idle")
            await order(node, "before", "play")
            await tape.until("PlayerResume", id="before")
            await delete(node, "one")
            await own.closed()
        await tape.until("PlayerDelete", id="one")
        # Exactly what the player's own clients get, and in the same order.
        of_one = [event for event in tape.events if event["id"] == "one" and event["op"] != "PlayerCreate"]
        assert of_one == own.events
        assert [event["seq"] for event in of_one] == list(range(1, len(of_one) + 1))
        assert [event["op"] for event in with_states.events if event["op"] == "PlayerState"] == ["PlayerState"]
    answer = await node.request("GET", "/v0/events?since=1", headers=WEBSOCKET_HEADERS)
    assert refusal(answer) == (400, "bad_request")
    assert refusal(await node.request("GET", "/v0/events")) == (400, "upgrade_required")


async def test_a_new_player_is_told_of_before_its_first_event(node: RunningNode) -> None:
    (node.folder / "list.m3u").write_text("a.wav\nb.wav\n")
    async with following_all(node) as tape:
        await create(node, "p", "list.m3u", paused=True)
        await enqueue(node, "p", "c.wav")
        await tape.until("QueueUpdate", length=2)
        assert [event["op"] for event in tape.events] == ["PlayerCreate", "QueueUpdate", "QueueUpdate"]

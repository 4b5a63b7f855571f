"""A player's life in states, events, `since` and history; the events of all players on one socket."""

from tests.support.audio_files import music, wav
from tests.support.e2e_players import create, delete, enqueue, order, refusal, state
from tests.support.e2e_sockets import following, following_all, listening
from tests.support.http_client import WEBSOCKET_HEADERS
from tests.support.running_node import RunningNode


async def test_another_player_of_the_same_id_has_another_life(node: RunningNode) -> None:
    lives = []
    for _ in range(2):
        await create(node, "p", "x.wav", paused=True)
        now = await state(node, "p")
        listed = (await node.request("GET", "/v0/players")).json()
        assert (listed[0]["life"], now["seq"]) == (now["life"], 0)
        lives.append(now["life"])
        await delete(node, "p")
    assert lives[0] != lives[1]


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


async def played(node: RunningNode) -> list[tuple[str, str]]:
    answer = await node.request("GET", "/v0/players/p/history")
    assert answer.status == 200
    assert all(set(entry) == {"id", "uri", "metadata", "endedAt", "reason"} for entry in answer.json())
    return [(entry["uri"].removesuffix(".wav"), entry["reason"]) for entry in answer.json()]


async def test_going_back(node: RunningNode) -> None:
    for name, seconds in (("a", 0.2), ("b", 0.2), ("c", 5.0)):
        (node.folder / f"{name}.wav").write_bytes(wav(music(seconds)))
    await create(node, "p", "a.wav")
    assert refusal(await node.request("POST", "/v0/players/p/previous")) == (409, "no_previous")
    ids = [await enqueue(node, "p", uri) for uri in ("b.wav", "missing.wav", "c.wav")]
    async with following(node, "p") as tape, listening(node, "p"):
        await tape.until("TrackStart", trackId=ids[-1])
        await order(node, "p", "pause")
        assert await played(node) == [("missing", "loadFailed"), ("b", "finished"), ("a", "finished")]
        await order(node, "p", "previous")
        assert (await state(node, "p"))["trackId"] == ids[0]
        end = await tape.until("TrackEnd", reason="replaced")
        assert end["trackId"] == ids[-1]
        await order(node, "p", "previous")
        assert (await state(node, "p"))["track"]["info"]["title"] == "a"
        assert await played(node) == [("missing", "loadFailed")]
        assert refusal(await node.request("POST", "/v0/players/p/previous")) == (409, "no_previous")
        queue = (await node.request("GET", "/v0/players/p/queue")).json()
        assert [entry["id"] for entry in queue] == [ids[0], ids[-1]]

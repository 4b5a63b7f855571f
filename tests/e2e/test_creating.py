"""Ids, and limits that a configuration sets."""

import asyncio
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from tests.support.e2e_players import PATIENT, create, delete, enqueue, refusal, state, waiting_uris
from tests.support.e2e_sockets import listening
from tests.support.http_client import WEBSOCKET_HEADERS
from tests.support.running_node import RunningNode, running_node


async def test_of_many_creates_at_once_with_one_id_one_succeeds(node: RunningNode) -> None:
    answers = await asyncio.gather(
        *(
            node.request("POST", "/v0/players", {"id": f"p{number % 5}", "uri": f"{number}.wav"})
            for number in range(100)
        )
    )
    assert Counter(answer.status for answer in answers) == {201: 5, 409: 95}
    # The one that was told so is the one that is there.
    won = {number for number, answer in enumerate(answers) if answer.status == 201}
    players = (await node.request("GET", "/v0/players")).json()
    assert {player["track"]["info"]["identifier"] for player in players} == {f"{number}.wav" for number in won}


async def test_every_id_that_is_accepted_can_be_reached(node: RunningNode) -> None:
    for player in ("...", ".a", "~", "a:b@c+d-e_f", "0", "x" * 128, "play", "ws", "queue", "+41"):
        await create(node, player, "x.wav")
        for path in (player, quote(player, safe=""), "".join(f"%{ord(letter):02x}" for letter in player)):
            answer = await node.request("GET", f"/v0/players/{path}/queue")
            assert (answer.status, answer.json()) == (200, []), path
        assert (await node.request("GET", f"/v0/players/{player}")).json()["id"] == player
        await delete(node, player)
    for wrong in ("", ".", "..", "a b", "a/b", "ä", "a%62", "a?", "a#", "x" * 129, "a\n", "a\u0000", 1, None):
        answer = await node.request("POST", "/v0/players", {"id": wrong, "uri": "x.wav"})
        assert refusal(answer) == (400, "bad_request"), wrong
    assert (await node.request("GET", "/v0/players")).json() == []


async def test_a_track_shows_what_was_given_and_what_is_opened(node: RunningNode) -> None:
    for number, (given, opened, title) in enumerate(
        (
            ("x y.wav", f"{node.folder}/x y.wav", "x y"),
            ("./a/../x.y.wav", f"{node.folder}/x.y.wav", "x.y"),
            ("file:///a%20b.flac", "/a b.flac", "a b"),
            ("/music/ä.mp3", "/music/ä.mp3", "ä"),
            (
                "http://Radio.Example:80/some%20song.mp3?x=1",
                "http://radio.example/some%20song.mp3?x=1",
                "some song",
            ),
        )
    ):
        await create(node, str(number), given)
        info = (await state(node, str(number)))["track"]["info"]
        assert (info["identifier"], info["uri"], info["title"]) == (given, opened, title)
        # Before it is opened nothing else is known.
        assert (info["length"], info["isSeekable"], info["isStream"], info["author"]) == (0, False, False, "")
        assert info["sourceName"] == ("http" if given.startswith("http") else "file")


async def test_limits_are_those_of_the_configuration(tmp_path: Path) -> None:
    config = PATIENT + "max_players = 2\nmax_waiting_tracks = 3\nmax_listeners = 1\n"
    async with running_node(tmp_path, config) as node:
        await create(node, "a", "x.wav")
        await create(node, "b", "x.wav")
        answer = await node.request("POST", "/v0/players", {"id": "c", "uri": "x.wav"})
        assert refusal(answer) == (429, "limit_reached")
        assert "player.max_players" in answer.json()["message"]
        await delete(node, "b")
        await create(node, "c", "x.wav")

        for number in range(3):
            await enqueue(node, "a", f"{number}.wav")
        answer = await node.request("POST", "/v0/players/a/queue", {"uri": "x.wav", "metadata": {}})
        assert refusal(answer) == (429, "limit_reached")
        assert "player.max_waiting_tracks" in answer.json()["message"]
        assert await waiting_uris(node, "a") == ["0.wav", "1.wav", "2.wav"]

        async with listening(node, "a"):
            for target in ("/v0/players/a/ws", "/v0/players/a/stream.wav"):
                upgrade = WEBSOCKET_HEADERS if target.endswith("ws") else ()
                answer = await node.request("GET", target, headers=upgrade)
                assert refusal(answer) == (429, "limit_reached")
                assert "player.max_listeners" in answer.json()["message"]

"""Where a voice goes: moves, leaving, restarts, and bots that ask for more than one."""

from pathlib import Path

import pytest

from tests.support.audio_files import music, opus
from tests.support.e2e_players import create, done, state
from tests.support.running_node import RunningNode, running_node
from tests.support.voice_players import CONFIG, TOKEN, join, until_voice, voice
from tests.support.voice_server import voice_server


async def test_a_move_is_made_beside_the_old_connection(node: RunningNode, certificate: Path) -> None:
    async with (
        voice_server(certificate, ears=(5,)) as old,
        voice_server(certificate, ears=(6,), channel_id=4) as new,
    ):
        await create(node, "p", "song.opus")
        before = await join(node, old)
        await before.heard(5)
        await done(node, "PUT", "/v0/players/p/voice", voice(new, channelId="4"))
        after = await new.session(1)
        await after.heard(10, more=False)
        await before.until(lambda: before.closed_with, "the end of the old one")
        assert before.closed_with == [1000]
        await before.until_silent()
        shown = await until_voice(node, "p", "connected")
        assert (shown["channelId"], shown["endpoint"]) == ("4", new.endpoint)
        assert (await state(node, "p"))["listeners"] == 1


async def test_a_voice_moves_where_the_player_may_have_no_further_listener(tmp_path: Path, certificate: Path) -> None:
    config = CONFIG.replace("[voice]", "max_listeners = 1\n[voice]")
    (tmp_path / "song.opus").write_bytes(opus(music(60.0)))
    async with (
        running_node(tmp_path, config, variables={"SSL_CERT_FILE": str(certificate)}) as node,
        voice_server(certificate) as old,
        voice_server(certificate, channel_id=4) as new,
    ):
        await create(node, "p", "song.opus")
        before = await join(node, old)
        await before.heard(5)
        await done(node, "PUT", "/v0/players/p/voice", voice(new, channelId="4"))
        await (await new.session(1)).heard(10, more=False)
        await before.until(lambda: before.closed_with, "the end of the old one")
        shown = await until_voice(node, "p", "connected")
        assert (shown["channelId"], (await state(node, "p"))["listeners"]) == ("4", 1)


async def test_of_many_wishes_the_newest_counts(node: RunningNode, certificate: Path) -> None:
    async with voice_server(certificate) as server:
        await create(node, "p", "song.opus")
        for number in range(10, 20):
            await done(node, "PUT", "/v0/players/p/voice", voice(server, channelId=str(number)))
        shown = await until_voice(node, "p", "connected")
        assert shown["channelId"] == "19"
        await server.changes.until(lambda: server.dials and len(server.sessions) >= 1, "a session")
        newest = server.sessions[-1]
        await newest.heard(5)
        dials = server.dials
        await done(node, "PUT", "/v0/players/p/voice", voice(server, channelId="19"))  # the same changes nothing
        await newest.heard(5)
        assert server.dials == dials


async def test_a_server_that_goes_ends_the_voice(node: RunningNode, certificate: Path) -> None:
    async with voice_server(certificate) as server:
        await create(node, "p", "song.opus")
        session = await join(node, server)
        await session.heard(5)
        await done(node, "PUT", "/v0/players/p/voice", voice(server, endpoint=None))
        close = (await until_voice(node, "p", "closed"))["close"]
        assert (close["reason"], close["by"], close["action"]) == ("endpoint_gone", "bot", "wait")
        await session.until(lambda: session.closed_with, "the end")


@pytest.mark.parametrize("way", ["DELETE /v0/players/p/voice", "DELETE /v0/players/p"])
async def test_leaving_ends_in_silence_and_order(node: RunningNode, certificate: Path, way: str) -> None:
    async with voice_server(certificate) as server:
        await create(node, "p", "song.opus")
        session = await join(node, server)
        await session.heard(10)
        await done(node, *way.split(" "))
        await session.until(lambda: session.closed_with, "the end")
        assert session.closed_with == [1000]
        await session.until_silent()
        assert [said["speaking"] for said in session.of(5)] == [1, 0]
        if way.endswith("voice"):
            assert (await node.request("GET", "/v0/players/p/voice")).json() == {"state": "none"}


async def test_a_bot_has_one_voice_in_a_guild(node: RunningNode, certificate: Path) -> None:
    async with voice_server(certificate) as server:
        await create(node, "p", "song.opus")
        await join(node, server)
        await create(node, "q", "song.opus")
        answer = await node.request("PUT", "/v0/players/q/voice", voice(server))
        assert (answer.status, answer.json()["code"]) == (409, "voice_taken")
        assert '"p"' in answer.json()["message"]
        await done(node, "DELETE", "/v0/players/p/voice")
        await done(node, "PUT", "/v0/players/q/voice", voice(server))
        await until_voice(node, "q", "connected")


async def test_after_a_restart_the_voice_is_told_as_closed(tmp_path: Path, certificate: Path) -> None:
    config = CONFIG + '[state]\npath = "state.sqlite"\n'
    variables = {"SSL_CERT_FILE": str(certificate)}
    (tmp_path / "song.opus").write_bytes(opus(music(60.0)))
    async with voice_server(certificate) as server:
        async with running_node(tmp_path, config, variables=variables) as node:
            await create(node, "p", "song.opus")
            session = await join(node, server)
            await session.heard(5)
        await session.until(lambda: session.closed_with == [1000], "an orderly end")
        assert TOKEN.encode() not in (tmp_path / "state.sqlite").read_bytes()
        async with running_node(tmp_path, config, variables=variables) as node:
            told = await until_voice(node, "p", "closed")
            assert (told["close"]["reason"], told["close"]["action"]) == ("restarted", "rejoin")
            await done(node, "PUT", "/v0/players/p/voice", voice(server))
            await (await server.session(2)).heard(5, more=False)

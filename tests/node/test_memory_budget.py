"""A decoder process with little memory: those for whom there is room play, the others wait, and nothing ends."""

import logging

import pytest

from tests.support.audio_files import mp3, music
from tests.support.eventually import eventually
from tests.support.node_in_process import Listening, listening, running_node
from tests.support.shelf import Shelf
from tonearm.core.opened_source import OPENING
from tonearm.decoder.opening.source_feed import DECODER_BUSY
from tonearm.decoder.opening.source_input import NODE_BUSY, WAITING_FOR_PROCESS
from tonearm.node.parts import NodeSettings

LIMIT_MB = 336  # some 244 are taken before anybody plays, and each player takes 1.8
PLAYERS = 60


def plays_or_says_why(player: Listening) -> bool:
    return player.state["state"] != "loading" or bool(player.events.named("TrackStuck"))


def those_who_play(players: list[Listening]) -> list[Listening]:
    return [player for player in players if player.state["state"] == "playing"]


async def test_players_wait_where_there_is_no_memory_and_get_their_turn(
    shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    uri = shelf.put("song.mp3", mp3(music(30.0)))
    settings = NodeSettings(decoder_processes=1, decoder_memory_limit_mb=LIMIT_MB, start_timeout_s=1.5)
    async with running_node(settings) as node:
        with caplog.at_level(logging.ERROR):
            players = [await listening(node, f"p{number}", uri) for number in range(PLAYERS)]
            await players[0].listener.wait_frames(150)
        await eventually(lambda: len(those_who_play(players)) >= 15, "those for whom there is room play")
        playing = those_who_play(players)
        waiting = [player for player in players if player.quality["waitingForRoomMs"]]
        assert not caplog.text, "no process has ended"
        assert [player.failures for player in players] == [[]] * PLAYERS
        assert waiting
        # Behind all of these: one that was let in may have said before it was sent away that its process is busy, and
        # says nothing more then.
        late = await listening(node, "late", uri)
        # One that was sent away only now says so after its patience, unless it plays by then.
        await eventually(lambda: all(map(plays_or_says_why, [*waiting, late])), "those who wait say why")
        told = {event["cause"] for player in (*waiting, late) for event in player.events.named("TrackStuck")}
        # On a busy machine one that has got its room may wait for its process, too, or for its file.
        assert told <= {wait.cause for wait in (NODE_BUSY, OPENING, WAITING_FOR_PROCESS, DECODER_BUSY)}
        assert NODE_BUSY.cause in told
        for player in playing:
            if player not in waiting:
                await node.delete_player(player.id)
        await waiting[0].listener.wait_frames(10)

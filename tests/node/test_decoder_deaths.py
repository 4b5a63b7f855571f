"""Decoder processes die, and the sound goes on with the right sample."""

import asyncio

import pytest

from tests.support.audio_files import flac, music, pcm_of, wav
from tests.support.eventually import eventually
from tests.support.media_server import MediaServer, in_turn, media, redirect, status
from tests.support.node_in_process import heard_whole, listening, padded
from tests.support.processes import crash_at_work
from tests.support.shelf import Shelf
from tonearm.node.node import Node


async def test_after_a_kill_the_sound_goes_on_with_the_right_sample(
    node: Node, shelf: Shelf, server: MediaServer
) -> None:
    signals = [music(1.3, seed=seed) for seed in range(4)]
    uris = [
        shelf.put("song.wav", wav(signals[0])),
        shelf.put("song.flac", flac(signals[1])),
        # A link that is good for once only, as those that pages give: what is open is not resolved again.
        server.serve("/link.wav", in_turn(redirect(server.url("/ranges.wav")), status(410))),
        server.serve("/none.wav", media(wav(signals[3]), ranges=False)),
    ]
    server.serve("/ranges.wav", media(wav(signals[2])))
    players = [await listening(node, f"p{number}", uri) for number, uri in enumerate(uris)]
    await asyncio.gather(*(player.listener.wait_frames(15) for player in players))
    killed = players[0].kill_decoder()
    await asyncio.gather(*(player.wait_state("idle") for player in players))
    for player, signal_heard in zip(players, signals, strict=True):
        assert player.listener.pcm == padded(pcm_of(signal_heard))
        assert [reason for _, reason in player.ends] == ["finished"]
        assert len(player.starts) == 1
        assert player.failures == []
        assert player.quality["decoderProcess"] != killed


async def test_a_kill_at_any_time_of_a_queue_loses_and_doubles_no_sample(node: Node, shelf: Shelf) -> None:
    songs = [shelf.song(seconds) for seconds in (0.431, 0.367, 0.41, 0.389)]
    player = await listening(node, "p", *(uri for uri, _ in songs))
    for frames in (19, 26, 48):
        await player.listener.wait_frames(frames)
        killed = player.kill_decoder()
        await player.moved(killed)
    await player.wait_state("idle")
    assert player.ends == [(f"song{number}", "finished") for number in range(1, 5)]
    heard_whole(player.listener.pcm, *(pcm for _, pcm in songs))


async def test_a_good_source_at_which_processes_crashed_is_tried_alone_and_plays_on(
    node: Node, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    uri = shelf.put("good.flac", flac(music(20.0)))
    # Two deaths at work lead to a trial. Now and then a process ends what it does before the signal ends it.
    for death in range(20):
        players = [await listening(node, f"p{death}.{number}", uri) for number in range(20)]
        await eventually(lambda: any(p.state["track"]["info"]["length"] for p in players), "it is opened")  # noqa: B023
        if "played alone it did no harm" in caplog.text:
            break
        (process,) = node._pool._in_use
        await crash_at_work(process)
        await players[0].moved(process.pid)
        for player in players:
            await node.delete_player(player.id)
    assert "played alone it did no harm" in caplog.text
    last = await listening(node, "last", uri)
    await last.listener.wait_frames(20)
    assert [player.failures for player in (*players, last)] == [[]] * 21

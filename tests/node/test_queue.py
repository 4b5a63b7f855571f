"""Tracks one after the other: joined sample for sample, in loops, too."""

from tests.support.audio_files import flac, music, pcm_of, wav
from tests.support.media_server import MediaServer, media
from tests.support.node_in_process import heard_whole, listening, padded
from tests.support.shelf import Shelf
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback_requests import Requests
from tonearm.node.node import Node


async def test_tracks_of_all_kinds_and_lengths_are_heard_whole_one_after_the_other(
    node: Node, shelf: Shelf, server: MediaServer
) -> None:
    songs = [shelf.song(seconds) for seconds in (0.333, 0.2501, 0.1777, 0.29, 0.0031, 0.2)]
    ranged, unranged = music(0.234, seed=91), music(0.213, seed=92)
    songs[1] = server.serve("/ranged.wav", media(wav(ranged))), pcm_of(ranged)
    songs[3] = server.serve("/unranged.flac", media(flac(unranged), ranges=False)), pcm_of(unranged)
    player = await listening(node, "p", *(uri for uri, _ in songs))
    await player.wait_state("idle")
    assert [reason for _, reason in player.ends] == ["finished"] * 6
    heard_whole(player.listener.pcm, *(pcm for _, pcm in songs))


async def test_a_track_in_a_loop_joins_itself(node: Node, shelf: Shelf) -> None:
    uri, pcm = shelf.song(0.237)
    player = await listening(node, "p", uri)
    node.player("p").do(Requests.set_loop, LoopMode.TRACK)
    await player.events.wait_for("TrackStart", 4)
    node.player("p").do(Requests.set_loop, LoopMode.NONE)
    await player.wait_state("idle")
    rounds = len(player.starts)
    assert rounds in (4, 5)
    assert player.listener.pcm == padded(*[pcm] * rounds)
    assert {event["track"]["info"]["title"] for event in player.events.named("TrackStart")} == {"song1"}

"""Bad sources are told, and the next track plays."""

import asyncio
from pathlib import Path

from tests.support.audio_files import flac, music, pcm_of, video_without_sound
from tests.support.fetching import IMPATIENT
from tests.support.media_server import MediaServer, in_turn, media, status
from tests.support.node_in_process import Listening, listening, padded, queue_of, running_node
from tests.support.shelf import Shelf
from tonearm.core.frame import FRAME_BYTES
from tonearm.node.node import Node


async def test_a_bad_source_is_reported_and_the_next_one_plays(
    node: Node, shelf: Shelf, server: MediaServer, tmp_path: Path
) -> None:
    empty_folder = tmp_path / "nothing"
    empty_folder.mkdir()
    bad_sources: dict[str, tuple[str, str, int | None]] = {
        "missing": (str(tmp_path / "missing.mp3"), "file_missing", None),
        "folder": (str(empty_folder), "file_unreadable", None),
        "empty": (shelf.put("empty.mp3", b""), "empty", None),
        "text": (shelf.put("text.mp3", b"this is no audio at all\n" * 1000), "not_audio", None),
        "no_sound": (shelf.put("video.mp4", video_without_sound()), "no_audio_stream", None),
        "404": (server.url("/nothing.mp3"), "http_status", 404),
        "refused": ("http://127.0.0.1:1/a.mp3", "connect_failed", None),
    }
    song, pcm = shelf.song(0.1)

    async def play(player_id: str, uri: str, code: str, http_status: int | None) -> None:
        player = await listening(node, player_id, uri, song)
        await player.wait_state("idle")
        assert [reason for _, reason in player.ends] == ["loadFailed", "finished"]
        assert player.starts == ["song1"]
        assert player.listener.pcm == padded(pcm)
        error = player.events.named("TrackException")[0]["error"]
        assert error["code"] == code
        assert error.get("httpStatus") == http_status
        assert error["message"].endswith(".")
        assert error["hint"].endswith(".")
        ops = [op for op in player.events.ops if op.startswith("Track")]
        assert ops == ["TrackException", "TrackEnd", "TrackStart", "TrackEnd"]

    await asyncio.gather(*(play(kind, *bad) for kind, bad in bad_sources.items()))


async def test_a_failure_is_reported_when_the_tracks_turn_comes(node: Node) -> None:
    await node.create_player("p", "/missing.mp3", {})
    node.player("p").pause()
    player = Listening(node, "p")
    # By the time that another player has told its failure, this one had every occasion to.
    await (await listening(node, "witness", "/missing.mp3")).wait_state("failed")
    assert player.events.ops == ["ListenersChange"]
    node.player("p").play()
    await player.wait_state("failed")
    assert player.failures == ["file_missing"]
    assert player.state["track"]["info"]["title"] == "missing"


async def test_five_failures_in_a_row_stop_and_play_goes_on(node: Node, shelf: Shelf) -> None:
    song, pcm = shelf.song(0.1)
    player = await listening(node, "p", *(f"/missing{number}.mp3" for number in range(6)), song)
    await player.wait_state("failed")
    assert player.failures == ["file_missing"] * 5
    assert [track["uri"] for track in queue_of(node, "p")] == ["/missing5.mp3", song]
    node.player("p").play()
    await player.wait_state("idle")
    assert player.failures == ["file_missing"] * 6
    assert player.listener.pcm == padded(pcm)


async def test_an_interrupted_source_plays_as_far_as_it_came(shelf: Shelf, server: MediaServer) -> None:
    signal = music(3.0)
    body = flac(signal)
    uri = server.serve("/cut.flac", in_turn(media(body, stall_after=len(body) * 2 // 3, ranges=False), status(404)))
    song, pcm = shelf.song(0.1)
    async with running_node(fetching=IMPATIENT) as node:
        player = await listening(node, "p", uri, song)
        await player.wait_state("idle")
        assert [reason for _, reason in player.ends] == ["loadFailed", "finished"]
        assert len(player.failures) == 1
        assert player.starts == ["cut", "song1"]
        heard = player.listener.pcm
        begins = heard.find(pcm)
        assert begins > 0.8 * 48_000 * 4
        kept = begins - FRAME_BYTES  # silence may fill the last frame
        assert heard[:kept] == pcm_of(signal)[:kept]

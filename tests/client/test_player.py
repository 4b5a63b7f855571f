"""What a program does with a player, and what it sees of it."""

import asyncio
import gc
import json
import time
import weakref
from collections.abc import Callable
from typing import Any, cast
from urllib.request import urlopen

import pytest

from tests.support.audio_files import music, wav
from tests.support.eventually import eventually
from tests.support.hand_time import LoopTime
from tests.support.pictures import flac_with, png
from tests.support.running_node import RunningNode
from tonearm.client import (
    PRESETS,
    BadRequest,
    Conflict,
    LoopMode,
    Node,
    NotFound,
    Player,
    PlayerExists,
    PlayerNotFound,
    PlayerUpdate,
    State,
    TonearmError,
    TrackEnd,
    TrackStart,
)


async def test_the_verbs_do_what_they_say(node: Node) -> None:
    player = await node.create_player("lobby", "song.wav", metadata={"guild": 81}, volume=0.5, loop="queue")
    assert (player.volume, player.loop, player.metadata) == (0.5, LoopMode.QUEUE, {"guild": 81})
    assert player.current is not None
    assert player.current.info.title == "song"

    first, second = await player.queue.put("clip.wav", "song.wav", metadata={"by": "ada"})
    (third,) = await player.queue.put("clip.wav", index=0)
    assert [track.id for track in await player.queue.list()] == [third, first, second]
    await player.queue.move(second, 0)
    await player.queue.remove(first)
    waiting = await player.queue.list(wait_ms=2000)
    assert [(track.id, track.title) for track in waiting] == [(second, "song"), (third, "clip")]
    assert waiting[0].length == 3000
    await eventually(lambda: len(player.queue) == 2, "the mirror has the length")

    await player.pause()
    await player.set_loop("track")
    await player.set_filters("nightcore", volume=0.8)
    await player.set_metadata({"text": 5})
    await player.set_crossfade(500)
    await player.seek(1500)
    await eventually(lambda: player.position == 1500, "the mirror follows")
    assert (player.paused, player.metadata) == (True, {"guild": 81, "text": 5})
    assert (player.volume, player.loop) == (0.8, LoopMode.TRACK)
    await player.resume()
    overlay = await player.overlay("clip.wav", duck_db=-6)
    await player.stop_overlay(overlay)
    assert await player.play("clip.wav") == (await player.refresh()).track_id
    await player.skip(to=waiting[1])
    await player.queue.clear()
    await player.stop()
    await eventually(lambda: player.state is State.IDLE, "it has stopped")
    assert (await player.history())[0].uri == "clip.wav"
    await player.delete()
    assert await node.players() == []


async def test_the_picture_inside_of_a_file(process: RunningNode, node: Node) -> None:
    (process.folder / "with.flac").write_bytes(flac_with(music(2.0), png()))
    player = await node.create_player("a", "with.flac", paused=True)
    assert await player.artwork() == (png(), "image/png")
    assert await (await node.create_player("b", "song.wav", paused=True)).artwork() is None
    with pytest.raises(PlayerNotFound):
        await node.player("nobody").artwork()


async def test_refusals_are_errors_of_their_kind(node: Node) -> None:
    player = await node.create_player("a", "song.wav")
    with pytest.raises(PlayerExists):
        await node.create_player("a", "song.wav")
    assert await node.create_player("a", "other.wav", exist_ok=True) is player
    with pytest.raises(PlayerExists, match=r"'a' exists.*exist_ok=True"):
        await node.create_player("a")
    with pytest.raises(PlayerNotFound, match=r"There is no player 'no/body'.*node\.create_player"):
        await node.player("no/body").pause()
    with pytest.raises(NotFound):
        await player.queue.remove("nothing")
    for words in ("a song", "a?song", "../history"):  # as a user of a bot may type them where an id belongs
        for change in (player.queue.remove(words), player.queue.move(words, 0), player.stop_overlay(words)):
            with pytest.raises(NotFound):
                await change
    with pytest.raises(Conflict):
        await player.previous()
    with pytest.raises(BadRequest, match="did you mean `timescale`") as refused:
        await player.set_filters(timescail={"speed": 2})
    assert (refused.value.status, refused.value.code) == (400, "bad_request")
    with pytest.raises(BadRequest, match=r"speed.*0\.25"):
        await player.set_filters(timescale={"speed": 9})
    with pytest.raises(ValueError, match="nightcore"):
        await player.set_filters("nightcor")
    assert issubclass(PlayerNotFound, TonearmError)


async def test_what_is_written_wrong_is_said_at_once_with_what_is_right(node: Node) -> None:
    player: Any = await node.create_player("a")
    slips: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: player.on("TrackStarted", print), TypeError, r"'TrackStarted'.*did you mean TrackStart\?"),
        (lambda: player.on(5, print), TypeError, "5 is none of them"),
        (lambda: player.on(TrackStart, None), TypeError, "None cannot be called"),
        (lambda: player.wait_for("TrackStarted"), TypeError, "TrackStart"),
        (lambda: player.wait_for("TrackStart", timeout_s=0.01), TimeoutError, "TrackStart of player 'a'.*0.01 s"),
        (lambda: player.queue.put(["song.wav"]), TypeError, r"list.*queue\.put\(\*tracks\)"),
        (lambda: player.play(5), TypeError, "int"),
        (lambda: player.set_loop("all"), ValueError, "'all'.*none, track, queue"),
        (lambda: node.create_player("b", loop=cast("Any", "all")), ValueError, "'all'.*none, track, queue"),
        (lambda: player.seek(12.5), TypeError, r"12\.5 s.*12500"),
        (lambda: player.play("song.wav", start_ms=1.5), TypeError, "1500"),
        (lambda: player.seek("1:30"), TypeError, "'1:30'"),
    ]
    for slip, kind, words in slips:
        with pytest.raises(kind, match=words):
            await asyncio.wait_for(slip(), 60)
    assert await player.queue.put() == []


async def test_events_are_named_by_class_or_by_name_and_come_in_order(node: Node) -> None:
    seen: list[str] = []
    player = await node.create_player("a", "clip.wav")
    await player.queue.put("clip.wav")
    for kind in ("TrackStart", TrackStart, "QueueEnd", TrackStart | TrackEnd):
        player.on(cast("Any", kind), lambda event: seen.append(type(event).__name__))
    async with player.audio():
        ended = await player.wait_for("TrackEnd")
        assert isinstance(ended, TrackEnd)
        assert (ended.track.info.title, ended.reason.value) == ("clip", "finished")
        await eventually(lambda: "QueueEnd" in seen, "the queue is at its end")
    assert seen == ["TrackStart", "TrackStart", "TrackStart", "TrackEnd"] * 2 + ["QueueEnd"]


async def test_who_waits_is_told_when_nothing_will_come(node: Node) -> None:
    player = await node.create_player("a", "song.wav")

    def wrong(event: object) -> bool:
        raise LookupError

    with pytest.raises(LookupError):
        async with player.audio():
            await player.wait_for(TrackStart, check=wrong)
    waiting = asyncio.ensure_future(player.wait_for(TrackEnd))
    await asyncio.sleep(0)
    await player.unfollow()
    with pytest.raises(TonearmError, match="closed"):
        await waiting
    with pytest.raises(PlayerNotFound, match="'nobody'"):
        await node.player("nobody").wait_for(TrackEnd)
    waiting = asyncio.ensure_future(player.wait_for(TrackEnd, check=lambda event: event.reason.value == "loadFailed"))
    await asyncio.sleep(0)
    await node.request("DELETE", "/v0/players/a")
    with pytest.raises(PlayerNotFound, match="'a'"):
        await asyncio.wait_for(waiting, 60)


async def test_every_preset_is_taken(node: Node) -> None:
    player = await node.create_player("a")
    for name in PRESETS:
        await player.set_filters(name)
    await player.set_filters("bassboost")
    await player.set_filters(eq={0: -3.0}, low_pass={"frequency_hz": 800})
    state = await node.request("GET", "/v0/players/a")
    assert state["eq"][0]["gain_db"] == -3.0
    assert state["lowPass"]["frequencyHz"] == 800
    assert state["eq"][1]["gain_db"] > 3


async def test_after_a_standstill_of_the_program_old_sound_is_left_out(node: Node, process: RunningNode) -> None:
    """While the loop stands still, the frames wait in the system, in any number."""
    (process.folder / "long.wav").write_bytes(wav(music(20.0)))
    player = await node.create_player("a", "long.wav")
    async with player.audio("opus") as audio:
        frames = aiter(audio)
        while (await anext(frames)).number < 25:
            pass
        reading = asyncio.ensure_future(anext(frames))
        await asyncio.sleep(0)
        while reading.done():  # until it waits for its frame
            reading = asyncio.ensure_future(anext(frames))
            await asyncio.sleep(0)
        time.sleep(2)  # noqa: ASYNC251 - that is the fault
        with urlopen(f"{process.url}/v0/players/a") as answer:  # noqa: ASYNC210
            now_ms = json.loads(answer.read())["position"]
        heard = [await reading, *[await anext(frames) for _ in range(20)]]
    assert min(frame.position_ms for frame in heard) > now_ms - 1000
    assert audio.lost


async def test_a_callback_that_fails_ends_nothing(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    player = await node.create_player("a", "song.wav")
    seen: list[TrackStart] = []

    async def fails(event: object) -> None:
        raise LookupError

    player.on(TrackStart, fails)
    off = player.on(TrackStart, seen.append)
    async with player.audio():
        await eventually(lambda: seen, "the other callback is called")
    await eventually(lambda: "A callback of player a failed" in caplog.text, "it is logged")
    off()
    ended: list[TrackEnd] = []
    player.on(TrackEnd, ended.append)
    await player.play("clip.wav")
    await eventually(lambda: ended, "the track has ended")
    assert len(seen) == 1


async def test_a_queue_is_refilled_when_it_runs_low_until_it_is_long_enough(node: Node) -> None:
    player = await node.create_player("radio", "clip.wav", paused=True)

    async def more(of: Player) -> list[str]:
        return ["clip.wav"]

    off = player.refill(more, below=3)
    await eventually(lambda: len(player.queue) == 3, "three tracks wait")
    await player.resume()
    ended = 0
    async with player.audio(), asyncio.timeout(60):
        async for _ in player.events(TrackEnd):
            ended += 1
            if ended == 5:
                break
    off()


async def test_a_queue_is_not_refilled_without_end_with_what_cannot_be_played(node: Node) -> None:
    player = await node.create_player("radio")
    asked = 0

    async def more(of: Player) -> list[str]:
        nonlocal asked
        asked += 1
        return ["missing.wav"]

    off = player.refill(more)
    async with player.audio(), asyncio.timeout(60):
        await player.wait_for(PlayerUpdate, check=lambda event: event.state is State.FAILED)
    await node.info()
    assert asked == 1
    off()


async def test_who_plays_to_nobody_is_told(node: Node) -> None:
    player = await node.create_player("a", "song.wav")
    told = asyncio.Event()
    player.on_inactive(0.0, lambda _: told.set())
    await asyncio.wait_for(told.wait(), 60)


@pytest.mark.parametrize("by", ["the program", "somebody else"])
async def test_nobody_is_told_that_a_deleted_player_is_inactive(node: Node, by: str) -> None:
    """There may be another player of its id by then."""
    time = LoopTime()
    player = await node.create_player("a")
    told: list[Player] = []
    player.on_inactive(300.0, told.append)
    if by == "the program":
        await player.delete()
    else:
        await node.request("DELETE", "/v0/players/a")
        await eventually(lambda: player._following is not None and player._following.done(), "its events have ended")
    later = asyncio.ensure_future(asyncio.sleep(300.0))
    await asyncio.sleep(0)
    time.forward(300.0)
    await later
    assert told == []


async def test_what_can_be_asked_of_a_node(node: Node, process: RunningNode) -> None:
    found = await node.load("song.wav")
    assert (found.kind, len(found.tracks)) == ("track", 1)
    track = found.tracks[0]
    assert track.info.length == 3000
    found = await node.load("./nothing.wav")
    assert (found.kind, found.tracks) == ("error", [])
    assert "no such file" in found.problem.lower()
    assert "no such file" in (await node.explain("nothing.wav") or "").lower()
    assert [one.info.title for one in await node.decode(track.encoded, track.encoded)] == ["song", "song"]
    player = await node.create_player("a", track)
    assert player.current is not None
    assert player.current.info.identifier == "song.wav"
    assert [one.id for one in await node.players()] == ["a"]
    (process.folder / "list.m3u").write_text("song.wav\nclip.wav\n")
    assert len((await node.load_playlist("list.m3u")).tracks) == 2
    found = await node.load("list.m3u")
    assert (found.kind, [one.info.title for one in found.tracks]) == ("playlist", ["song", "clip"])
    assert (await node.stats()).players_created >= 1
    with pytest.raises(BadRequest, match="resolver"):
        await node.search("words")
    assert player.stream_url("ogg") == f"{process.url}/v0/players/a/stream.ogg"


async def test_a_node_remembers_only_the_handles_that_somebody_has(node: Node) -> None:
    lobby = node.player("lobby")
    assert node.player("lobby") is lobby
    forgotten = weakref.ref(node.player("attic"))
    gc.collect()
    assert forgotten() is None

"""Restarts, cut connections and slow programs: nothing is raised, and nothing lost that the node still has."""

import asyncio
import struct
from collections.abc import AsyncIterable
from pathlib import Path

from aiohttp import web

from tests.support.audio_files import music, wav
from tests.support.e2e_players import PATIENT
from tests.support.eventually import eventually
from tests.support.listened_node import ListenedNode, event, say_nothing
from tests.support.running_cluster import cuttable
from tests.support.running_node import RunningNode, running_node
from tonearm.client import (
    Disconnected,
    MetadataChange,
    Node,
    PlayerCreate,
    PlayerDelete,
    PlayerGone,
    PlayerState,
    Reconnected,
    TrackStart,
    UnknownEvent,
)


async def test_what_happened_while_the_connection_was_cut_comes_afterwards(process: RunningNode, node: Node) -> None:
    async with cuttable(process, "http") as relay, Node(relay.url) as far:
        await node.create_player("a", "song.wav")
        player = await far.player("a").refresh()
        seen: list[object] = []
        async with asyncio.timeout(60):
            async for event in player.events(PlayerState, Disconnected, Reconnected, MetadataChange):
                seen.append(event)
                if isinstance(event, PlayerState):
                    relay.cut()
                    relay.mend()
                    for number in range(20):
                        await node.player("a").set_metadata({"n": number})
                elif isinstance(event, MetadataChange) and event.metadata == {"n": 19}:
                    break
        assert [type(event) for event in seen] == [PlayerState, Disconnected, Reconnected, *[MetadataChange] * 20]
        assert [event.metadata["n"] for event in seen if isinstance(event, MetadataChange)] == list(range(20))
        assert player.metadata in ({}, {"n": 19})  # the mirror has a connection of its own


async def test_one_socket_tells_of_all_players_and_keeps_what_their_handles_show(
    process: RunningNode, node: Node
) -> None:
    async with cuttable(process, "http") as relay, Node(relay.url) as far:
        await node.create_player("a", "song.wav")
        seen: list[object] = []
        async with asyncio.timeout(60):
            async for event in far.events():
                seen.append(event)
                match event:
                    case PlayerState(id="a") if len(seen) == 1:
                        assert far.player("a").current is not None
                        await node.create_player("b", paused=True)
                    case PlayerCreate(id="b"):
                        assert far.player("b").paused
                        relay.cut()
                        relay.mend()
                        await node.create_player("c", volume=0.5)
                    case PlayerState(id="c"):
                        assert far.player("c").volume == 0.5
                        await node.player("c").delete()
                    case PlayerDelete():
                        break
        told = [type(event) for event in seen]
        assert told.index(PlayerCreate) < told.index(Disconnected) < told.index(Reconnected)


async def test_a_program_too_slow_for_the_events_gets_the_state_instead(node: Node) -> None:
    player = await node.create_player("a", "song.wav")
    seen: list[object] = []
    async with asyncio.timeout(60):
        async for event in player.events(PlayerState, Reconnected, MetadataChange):
            seen.append(event)
            if len(seen) == 1:
                for number in range(600):  # more than the node keeps, and more than sockets hold
                    await player.set_metadata({"n": number, "text": "x" * 8000})
            elif isinstance(event, PlayerState | MetadataChange) and event.metadata["n"] == 599:
                break
    assert Reconnected in {type(event) for event in seen}


async def test_a_deleted_player_ends_all_loops(node: Node) -> None:
    player = await node.create_player("a", "song.wav")
    async with player.audio() as audio, asyncio.timeout(60):
        await anext(frames := aiter(audio))
        await player.delete()
        async for _ in frames:
            pass
    async with asyncio.timeout(60):
        gone = await node.create_player("b", "song.wav")
        kinds: list[type] = []
        async for event in gone.events():
            if not kinds:
                await gone.delete()
            kinds.append(type(event))
        assert kinds[-1] is PlayerGone


async def test_who_closes_a_stream_ends_the_loops_of_other_tasks() -> None:
    async def audio(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(struct.pack(">BBHIQ", 1, 0, 3, 7, 0) + b"abc")
        await say_nothing(socket)

    async def read(stream: AsyncIterable[object], began: asyncio.Event) -> None:
        async for _ in stream:
            began.set()

    async with ListenedNode(audio=audio).running() as listened, asyncio.timeout(60):
        node = Node(listened.url)
        player = node.player("a")
        sound = player.audio()
        for stream, close in ((sound, sound.close), (player.audio(), node.close), (player.events(), node.close)):
            began = asyncio.Event()
            reading = asyncio.create_task(read(stream, began))
            await began.wait()
            await close()
            await reading
        assert len(listened.asked) == 3
        async with sound:
            assert (await anext(aiter(sound))).payload == b"abc"
        await node.close()


async def test_a_node_that_starts_again_is_found_again(tmp_path: Path) -> None:
    """Sound and events go on with the player that the program creates anew."""
    (tmp_path / "song.wav").write_bytes(wav(music(3.0)))
    async with running_node(tmp_path, PATIENT) as process:
        node = await Node(process.url).__aenter__()
        player = await node.create_player("a", "song.wav")
        frames, events = aiter(player.audio("opus")), player.events(PlayerState, PlayerGone)
        async with asyncio.timeout(60):
            await anext(frames)
            assert isinstance(await anext(events), PlayerState)
        gone = asyncio.ensure_future(anext(events))
        port = process.port
    async with running_node(tmp_path, PATIENT, arguments=("--port", str(port))), asyncio.timeout(60):
        assert isinstance(await gone, PlayerGone)
        assert [frame async for frame in frames][-1:] is not None  # ends: there is no such player any more
        again = await node.create_player("a", "song.wav")
        started: list[TrackStart] = []
        again.on(TrackStart, started.append)
        async with again.audio("opus") as audio:
            await eventually(lambda: started, "it plays")
            assert len((await anext(aiter(audio))).payload) > 3
        await node.close()


async def test_sound_goes_on_after_a_cut(process: RunningNode, node: Node) -> None:
    async with cuttable(process, "http") as relay, Node(relay.url) as far:
        await node.create_player("a", "song.wav", loop="track")
        numbers = []
        async with far.player("a").audio("pcm") as audio, asyncio.timeout(60):
            async for frame in audio:
                assert len(frame.payload) == 3840
                numbers.append(frame.number)
                if len(numbers) == 10:
                    relay.cut()
                    relay.mend()
                if audio.reconnects and len(numbers) >= 20:
                    break
        assert numbers == sorted(set(numbers))
        assert (audio.reconnects, audio.received) == (1, len(numbers))


async def test_what_no_node_sends_is_passed_over() -> None:
    async def audio(socket: web.WebSocketResponse) -> None:
        await socket.send_str("text")
        for message in (b"", b"short", bytes(100), struct.pack(">BBHIQ", 1, 0, 3, 7, 0) + b"abc"):
            await socket.send_bytes(message)
        await socket.close()

    async def events(socket: web.WebSocketResponse) -> None:
        for text in ("", "[1]", "7", "{", '{"op": 7}', event("Later", new=True), event("TrackStart", track=None)):
            await socket.send_str(text)
        await socket.close()

    async with ListenedNode(audio=audio, events=events).running() as strange, Node(strange.url) as node:
        player = node.player("a")
        async with player.audio() as sound:
            assert [frame.payload async for frame in sound] == [b"abc"]
        seen = [event async for event in player.events()]
        assert [event.op for event in seen if isinstance(event, UnknownEvent)] == ["7", "Later", "TrackStart"]
        assert isinstance(seen[-1], PlayerGone)

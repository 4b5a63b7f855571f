"""discord.py's own voice client plays what a node plays, and Discord hears it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import discord
import pytest
from discord.voice_state import ConnectionFlowState

from tests.support.audio_files import tone, wav
from tests.support.e2e_players import IMPATIENT, PATIENT
from tests.support.eventually import eventually
from tests.support.fake_voice import fake_voice
from tests.support.hand_time import LoopTime
from tests.support.media_files import loudest_hz
from tests.support.opus_listening import decoded
from tests.support.processes import WaitForCpu
from tests.support.running_node import RunningNode, running_node, shared_node
from tonearm.bots.joining import VoicePlayer
from tonearm.bots.source import DISCORD_SILENT_PACKET
from tonearm.client import (
    BadRequest,
    Node,
    PlayerGone,
    PlayerNotFound,
    Reconnected,
    TrackStart,
)
from tonearm.core.frame import FRAMES_PER_SECOND
from tonearm.discord import Source, dispatch, join


def frequency_hz(packets: Sequence[bytes]) -> float:
    return loudest_hz(decoded(packets)[4800:])


@pytest.fixture(scope="module")
def shared_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with shared_node(tmp_path_factory.mktemp("voice"), PATIENT) as process:
        yield process


@pytest.fixture
async def process(shared_process: RunningNode) -> AsyncIterator[RunningNode]:
    """A node without players, in whose folder a tone of 1 kHz is."""
    (shared_process.folder / "tone.wav").write_bytes(wav(tone(1000.0, 20.0)))
    yield shared_process
    await shared_process.forget_all()


async def test_discord_hears_every_packet_of_the_tone(process: RunningNode) -> None:
    async with Node(process.url) as node, fake_voice() as voice:
        waits = WaitForCpu(process.pid)
        player = await join(voice.channel, node, "tone.wav", metadata={"guild": 1})
        assert (player.id, player.metadata) == ("2", {"guild": 1})
        async with asyncio.timeout(60):
            packets = await voice.heard(100)
        assert frequency_hz(packets) == pytest.approx(1000.0, abs=2)
        assert {later.timestamp - earlier.timestamp for earlier, later in pairwise(voice.packets)} == {960}
        stats = player.source.stats
        assert stats.lost + stats.dropped <= waits.seconds(process.pid) * FRAMES_PER_SECOND

        await player.pause()
        await player.resume()
        async with asyncio.timeout(60):
            await voice.heard(10)
        await player.leave()
        assert await node.players() == []
        await eventually(
            lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("audio-player")],
            "the audio thread has ended",
        )
        await player.leave()  # once more does nothing


async def test_a_paused_player_is_heard_as_soon_as_the_node_has_something_to_hear(process: RunningNode) -> None:
    """Whoever paused it, and whatever ends that."""
    (process.folder / "bell.wav").write_bytes(wav(tone(500.0, 20.0)))
    async with Node(process.url) as node, fake_voice() as voice, asyncio.timeout(60):
        player = await join(voice.channel, node, "tone.wav")
        await player.pause()
        bell = await player.overlay("bell.wav")
        assert frequency_hz(await voice.heard(50)) == pytest.approx(500.0, abs=2)
        await player.stop_overlay(bell)
        await player.play()
        assert frequency_hz(await voice.heard(100)) == pytest.approx(1000.0, abs=2)


async def test_pcm_is_encoded_by_the_library(process: RunningNode) -> None:
    try:
        discord.opus.Encoder()
    except discord.opus.OpusNotLoaded:
        pytest.skip("libopus is not installed")
    async with Node(process.url) as node, fake_voice() as voice:
        player = await node.create_player("a", "tone.wav")
        client = await voice.channel.connect()
        client.play(await Source(player, audio_format="pcm").ready())
        async with asyncio.timeout(60):
            assert frequency_hz(await voice.heard(50)) == pytest.approx(1000.0, abs=2)


async def test_a_node_that_starts_again_is_heard_again(tmp_path: Path) -> None:
    (tmp_path / "tone.wav").write_bytes(wav(tone(1000.0, 60.0)))
    async with fake_voice() as voice:
        async with running_node(tmp_path, IMPATIENT) as process:
            node = await Node(process.url).__aenter__()
            player = await join(voice.channel, node, "tone.wav")
            ended: list[object] = []

            async def create_again(event: PlayerGone) -> None:
                ended.append(event)
                await node.create_player(player.id, "tone.wav")

            player.on(PlayerGone, create_again)
            async with asyncio.timeout(60):
                await voice.heard(20)
            port = process.port
        async with asyncio.timeout(60):
            await voice.heard(20, silence=True)  # meanwhile silence goes on
        async with running_node(tmp_path, IMPATIENT, arguments=("--port", str(port))), asyncio.timeout(60):
            assert frequency_hz(await voice.heard(50)) == pytest.approx(1000.0, abs=2)
            assert len(ended) == 1
            await player.leave()
            await node.close()


class Counted(Source):
    """Counts how often the voice client cleans it up."""

    cleanups = 0

    def cleanup(self) -> None:
        self.cleanups += 1
        super().cleanup()


async def test_the_end_of_a_player_is_the_end_of_the_sound(process: RunningNode) -> None:
    async with Node(process.url) as node, fake_voice() as voice:
        player = await node.create_player("a", "tone.wav")
        client = await voice.channel.connect()
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        source = Counted(player)
        client.play(await source.ready(), after=lambda error: loop.call_soon_threadsafe(over.set))
        await player.delete()
        async with asyncio.timeout(60):
            await over.wait()
        await eventually(lambda: source.cleanups, "the voice client cleans it up")
        assert source.read() == b""
        assert source.is_opus()
        await client.disconnect(force=True)
        assert source.cleanups == 1
        source.cleanup()  # once more does nothing
        Source.__new__(Source).cleanup()  # one that was never made


async def test_short_of_data_it_gives_silence_at_once(process: RunningNode) -> None:
    async with Node(process.url) as node:
        player = await node.create_player("a")
        packets, pcm = Source(player), Source(player, audio_format="pcm")
        assert packets.read() == DISCORD_SILENT_PACKET
        assert pcm.read() == bytes(3840)
        refused = Source(node.player("nobody"))
        await refused.ready()
        assert refused.read() == b""
        for source in (packets, pcm, refused):
            source.close()


async def test_a_channel_without_people_is_left(process: RunningNode) -> None:
    async with Node(process.url) as node, fake_voice() as voice:
        voice.channel.members.pop()
        await join(voice.channel, node, leave_after_s=0.05)
        await eventually(lambda: voice.channel.voice_client is None, "it has left")

        async def is_gone() -> bool:
            return await node.players() == []

        await eventually(is_gone, "the player, which is deleted after that, is gone")


async def test_a_player_stays_while_its_voice_client_connects_again_and_leaves_when_that_takes_a_minute() -> None:
    connected = iter([*[False] * 11, True, *[False] * 12])  # each 5 s
    left, time = AsyncMock(), LoopTime()
    voice = SimpleNamespace(
        play=Mock(), stop=Mock(), disconnect=left, channel=None, is_connected=lambda: next(connected)
    )
    player = VoicePlayer(Mock(request=AsyncMock()), "p").play_in(cast(Any, voice), Mock(), 300.0)
    assert player._leaving is not None
    while not player._leaving.done():
        time.forward(1.0)
        await asyncio.sleep(0)
    left.assert_awaited()
    assert not [*connected]


@pytest.mark.parametrize("player_id", [None, "another"])
async def test_a_bot_that_was_sent_away_and_joins_again_stays(process: RunningNode, player_id: str | None) -> None:
    """Also when the player from before ends its watch, a minute after it was sent away."""
    async with Node(process.url) as node, fake_voice() as voice, asyncio.timeout(60):
        before = await join(voice.channel, node, "tone.wav")
        await voice.channel.voice_client.on_voice_state_update({"channel_id": None, "session_id": "s"})
        player = await join(voice.channel, node, "tone.wav", player_id=player_id)
        if player_id is None:  # the object of before is told no more of this player's events
            assert before._following is not None
            assert before._following.done()
        await before.leave()
        assert voice.channel.voice_client is player.voice
        assert [one.id for one in await node.players()] == [player.id]
        assert frequency_hz(await voice.heard(50)) == pytest.approx(1000.0, abs=2)
        assert before._leaving is not None
        with pytest.raises(asyncio.CancelledError):
            await before._leaving
        await player.leave()
        assert voice.channel.voice_client is None


async def test_a_bot_that_was_sent_away_asks_its_library_for_nothing_when_it_leaves() -> None:
    """discord.py would wait half a minute for Discord, and then forget the voice client of the next join."""
    channel = SimpleNamespace(guild=SimpleNamespace(voice_client=None))
    voice = SimpleNamespace(play=Mock(), stop=Mock(), disconnect=AsyncMock(), channel=channel)
    asked = AsyncMock()
    player = VoicePlayer(Mock(request=asked), "p").play_in(cast(Any, voice), Mock(), None)
    await player.leave()
    voice.disconnect.assert_not_awaited()
    asked.assert_awaited_once_with("DELETE", "/v0/players/p")


async def test_a_station_sounds_in_two_guilds(process: RunningNode) -> None:
    async with Node(process.url) as node, fake_voice() as one, fake_voice() as other, asyncio.timeout(60):
        first = await join(one.channel, node, "tone.wav", player_id="station")
        second = await join(other.channel, node, player_id="station")
        for voice in (other, one):
            assert frequency_hz(await voice.heard(50)) == pytest.approx(1000.0, abs=2)
        await first.leave()
        assert frequency_hz(await other.heard(50)) == pytest.approx(1000.0, abs=2)
        await second.leave()
        assert await node.players() == []


async def test_a_sound_that_the_library_gave_up_goes_on_when_it_has_connected_again(process: RunningNode) -> None:
    async with Node(process.url) as node, fake_voice() as voice, asyncio.timeout(60):
        player = await join(voice.channel, node, "tone.wav")
        await voice.heard(10)
        library, given_up = voice.channel.voice_client._connection, player.source
        library.timeout = 0.0  # of half a minute
        library.state = ConnectionFlowState.set_guild_voice_state
        await eventually(lambda: given_up.read() == b"", "the library has given it up")
        library.state = ConnectionFlowState.connected
        assert frequency_hz(await voice.heard(50)) == pytest.approx(1000.0, abs=2)
        await player.leave()


async def test_a_bot_whose_player_is_gone_leaves_the_channel(process: RunningNode) -> None:
    async with Node(process.url) as node, fake_voice() as voice:
        player = await join(voice.channel, node, "tone.wav")
        assert (await process.request("DELETE", f"/v0/players/{player.id}")).status == 204
        await eventually(lambda: voice.channel.voice_client is None, "it has left")
        assert not player.is_there


async def test_a_player_is_deleted_also_when_its_voice_client_cannot_disconnect() -> None:
    """Some libraries raise while the bot's own connection to Discord is lost."""
    asked, lost = AsyncMock(), AsyncMock(side_effect=ConnectionResetError)
    voice = SimpleNamespace(play=Mock(), stop=Mock(), disconnect=lost, channel=None)
    player = VoicePlayer(Mock(request=asked), "p").play_in(cast(Any, voice), Mock(), None)
    with pytest.raises(ConnectionResetError):
        await player.leave()
    asked.assert_awaited_once_with("DELETE", "/v0/players/p")


async def test_a_channel_is_left_after_its_player_was_deleted_too() -> None:
    gone = AsyncMock(side_effect=PlayerNotFound("p"))
    voice = SimpleNamespace(play=Mock(), stop=Mock(), disconnect=AsyncMock(), channel=None)
    await VoicePlayer(Mock(request=gone), "p").play_in(cast(Any, voice), Mock(), None).leave()
    voice.disconnect.assert_awaited_once()
    gone.assert_awaited_once_with("DELETE", "/v0/players/p")


async def test_a_join_that_fails_leaves_the_channel(process: RunningNode) -> None:
    async with Node(process.url) as node, fake_voice() as voice:
        with pytest.raises(BadRequest):
            await join(voice.channel, node, "")
        assert voice.channel.voice_client is None


@pytest.mark.parametrize("track", [None, "other.wav"])
async def test_a_bot_that_starts_again_after_a_crash_takes_its_player_over(
    process: RunningNode, track: str | None
) -> None:
    (process.folder / "other.wav").write_bytes(wav(tone(500.0, 20.0)))
    async with fake_voice() as voice:
        async with Node(process.url) as crashed:  # it deletes nothing
            before = await crashed.create_player("2", "tone.wav", metadata={"guild": 1}, paused=track is not None)
            await before.queue.put("tone.wav")
        async with Node(process.url) as node, asyncio.timeout(60):
            player = await join(voice.channel, node, track)
            assert (player.metadata, len(player.queue)) == ({"guild": 1}, 1)
            assert frequency_hz(await voice.heard(50)) == pytest.approx(1000.0 if track is None else 500.0, abs=2)
            await player.leave()
            assert await node.players() == []


async def test_events_reach_the_bot_by_their_names(tmp_path: Path) -> None:
    class Bot:
        def __init__(self) -> None:
            self.told: list[tuple[str, object]] = []

        def dispatch(self, event: str, /, *arguments: object) -> None:
            self.told.append((event, arguments[0]))

    (tmp_path / "tone.wav").write_bytes(wav(tone(1000.0, 0.2)))
    async with running_node(tmp_path, IMPATIENT) as process, Node(process.url) as node:
        bot = Bot()
        player = await node.create_player("a", "tone.wav")
        off = dispatch(bot, player)
        await eventually(lambda: "tonearm_queue_end" in [name for name, _ in bot.told], "the queue has ended")
        started = dict(bot.told)["tonearm_track_start"]
        assert isinstance(started, TrackStart)
        off()
    assert Reconnected.__name__ not in dict(bot.told)

"""The bot in docs/discord.md, with the command in docs/soundboard.md, pasted, and used in a voice channel."""

import asyncio
from pathlib import Path
from typing import Any

from tests.support.audio_files import tone, wav
from tests.support.e2e_players import IMPATIENT
from tests.support.environment import variables
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.fake_voice import FakeInteraction, fake_voice, without_discord
from tests.support.readme import REPOSITORY, blocks
from tests.support.running_node import running_node

LAST_LINE = 'bot.run(os.environ["DISCORD_TOKEN"])\n'
(BOT,) = blocks("python", (REPOSITORY / "docs" / "discord.md").read_text(encoding="utf-8"))
(SOUND,) = blocks("python", (REPOSITORY / "docs" / "soundboard.md").read_text(encoding="utf-8"))


async def test_the_bot_plays_in_a_channel(tmp_path: Path) -> None:
    for name in ("song", "next"):
        (tmp_path / f"{name}.flac").write_bytes(wav(tone(440, 20.0)))  # what a file is decides what is in it
    (tmp_path / "sounds").mkdir()
    (tmp_path / "sounds" / "horn.wav").write_bytes(wav(tone(440, 20.0)))
    async with running_node(tmp_path, IMPATIENT) as process, fake_voice() as voice:
        program: dict[str, Any] = {}
        with variables(DISCORD_TOKEN="token", TONEARM_URL=process.url), without_discord() as ran:
            exec(BOT.replace(LAST_LINE, SOUND + LAST_LINE), program)  # noqa: S102 - what a reader pastes
        assert ran == ["token"]
        user = FakeInteraction(voice.channel)

        async def say(command: str, **arguments: object) -> str:
            await program["tree"].get_command(command).callback(user, **arguments)
            return user.said[-1]

        await process.request("POST", "/v0/players", {"id": "guild-1", "uri": "song.flac"})  # before it was stopped
        async with program["node"], asyncio.timeout(PATIENCE_S):
            with without_discord():
                await program["setup_hook"]()
            voiceless = FakeInteraction(None)
            voiceless.user.voice = None
            await program["play"].callback(voiceless, "song.flac")
            assert voiceless.said == ["Join a voice channel first."]
            assert "scheme" in await say("play", what="ftp://radio.example/")
            assert await say("play", what="song.flac") == "Queued: song.flac"
            assert any(await voice.heard(20))
            assert await say("play", what="next.flac") == "Queued: next.flac"
            assert await say("skip") == "Skipped."
            (player,) = program["players"].values()
            await eventually(lambda: player.current.info.title == "next", "the next one plays")
            assert await say("sound", name="horn") == "horn!"
            (overlay,) = (await process.request("GET", f"/v0/players/{player.id}/overlays")).json()
            assert (overlay["uri"], overlay["duckDb"]) == ("sounds/horn.wav", -18)
            await player.leave()

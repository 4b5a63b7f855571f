"""A music bot for Discord: /play /skip /queue /now /seek /volume /preset /leave.

DISCORD_TOKEN=… python examples/music_bot.py; TONEARM_URL and TONEARM_PASSWORD name the node, if it is elsewhere.
"""

import os

import discord
from discord import Interaction, app_commands

from tonearm.client import PRESETS, Node, TonearmError
from tonearm.discord import VoicePlayer, join


class Bot(discord.Client):
    def __init__(self) -> None:
        super().__init__(intents=discord.Intents.default())
        self.tree = app_commands.CommandTree(self)
        self.node = Node.from_env()
        self.players: dict[int, VoicePlayer] = {}

    async def setup_hook(self) -> None:
        await self.node.__aenter__()  # fails here, and says why, when there is no node
        await self.tree.sync()
        for player in await self.node.players():
            if player.id.startswith("guild-"):  # what this bot played when it was stopped
                await player.delete()

    async def player_for(self, interaction: Interaction) -> VoicePlayer:
        """The guild's player; joined where the user is, if there is none yet."""
        voice, guild_id = getattr(interaction.user, "voice", None), interaction.guild_id or 0
        player = self.players.get(guild_id)
        if player is None or not player.voice.is_connected():
            if voice is None or voice.channel is None:
                raise app_commands.AppCommandError("Join a voice channel first.")
            self.players[guild_id] = player = await join(voice.channel, self.node, player_id=f"guild-{guild_id}")
        return player


bot = Bot()


@bot.tree.error
async def on_error(interaction: Interaction, error: app_commands.AppCommandError) -> None:
    cause = getattr(error, "original", error)  # what the node said is for people: show it
    await interaction.followup.send(str(cause) if isinstance(cause, TonearmError) else str(error))


def length(ms: int) -> str:
    return f"{ms // 60_000}:{ms // 1000 % 60:02}"


@bot.tree.command(description="Play a link, a playlist, or what is found by words")
async def play(interaction: Interaction, what: str) -> None:
    await interaction.response.defer()
    player = await bot.player_for(interaction)
    found = await bot.node.load(what)
    if not found.tracks:
        raise app_commands.AppCommandError(found.problem)
    tracks, first = found.tracks if found.kind == "playlist" else found.tracks[:1], found.tracks[0].info
    await player.queue.put(*tracks, metadata={"by": interaction.user.id})
    await interaction.followup.send(f"Queued: {found.name or f'{first.title} ({length(first.length)})'}")


@bot.tree.command(description="Play the next track")
async def skip(interaction: Interaction) -> None:
    await interaction.response.defer()
    await (await bot.player_for(interaction)).skip()
    await interaction.followup.send("Skipped.")


@bot.tree.command(description="Show what waits")
async def queue(interaction: Interaction) -> None:
    await interaction.response.defer()
    tracks = await (await bot.player_for(interaction)).queue.list(limit=10, wait_ms=2000)
    lines = [f"{number}. {track.title} ({length(track.length)})" for number, track in enumerate(tracks, 1)]
    await interaction.followup.send("\n".join(lines) or "Nothing waits.")


@bot.tree.command(description="Show what plays")
async def now(interaction: Interaction) -> None:
    await interaction.response.defer()
    player = await bot.player_for(interaction)
    info = player.current and player.current.info
    told = f"{info.title}: {length(player.position)} of {length(info.length)}" if info else "Nothing plays."
    await interaction.followup.send(told)


@bot.tree.command(description="Jump to a second of the track")
async def seek(interaction: Interaction, second: int) -> None:
    await interaction.response.defer()
    await (await bot.player_for(interaction)).seek(second * 1000)
    await interaction.followup.send(f"At {length(second * 1000)}.")


@bot.tree.command(description="Set the volume in percent")
async def volume(interaction: Interaction, percent: app_commands.Range[int, 0, 200]) -> None:
    await interaction.response.defer()
    await (await bot.player_for(interaction)).set_volume(percent / 100)
    await interaction.followup.send(f"Volume {percent} %.")


@bot.tree.command(description="Change the sound")
@app_commands.choices(name=[app_commands.Choice(name=name, value=name) for name in PRESETS][:25])
async def preset(interaction: Interaction, name: str) -> None:
    await interaction.response.defer()
    await (await bot.player_for(interaction)).set_filters(name)
    await interaction.followup.send(f"Sound: {name}.")


@bot.tree.command(description="Leave the channel")
async def leave(interaction: Interaction) -> None:
    await interaction.response.defer()
    await bot.players.pop(interaction.guild_id or 0, await bot.player_for(interaction)).leave()
    await interaction.followup.send("Bye.")


if __name__ == "__main__":
    bot.run(os.environ["DISCORD_TOKEN"])

"""Says something over the music: every overlay lowers what plays meanwhile.

python examples/announce.py lobby bell.wav news.mp3
"""

import asyncio
import sys

from tonearm.client import Node, OverlayEnd, OverlayException


async def main(player_id: str, *sounds: str) -> None:
    async with Node.from_env() as node:
        player = await node.player(player_id).refresh()
        player.on(OverlayException, lambda event: print("not played:", event.error.message))
        for sound in sounds:
            ended = asyncio.create_task(player.wait_for(OverlayEnd))  # before the sound: its end may come at once
            await player.overlay(sound, duck_db=-15, fade_ms=300)
            await ended
            print("over:", sound)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""Keeps a player playing, also when its node is started again: what played goes on where it was.

python examples/outlives_restarts.py radio song.flac other.flac
"""

import asyncio
import sys

from tonearm.client import Node, Player, Reconnected, TrackStart


class Kept:
    """A player that is created again, with the track and the place where it was."""

    def __init__(self, node: Node, player_id: str, tracks: list[str]) -> None:
        self.node, self.id, self.tracks = node, player_id, tracks
        self.player: Player | None = None
        self.track = tracks[0]
        self.position_ms = 0

    async def run(self) -> None:
        while True:
            self.player = await self.node.create_player(self.id, self.track, loop="queue", exist_ok=True)
            self.player.on(TrackStart, self.started)
            if self.position_ms:
                await self.player.seek(self.position_ms)
                print("goes on at", self.position_ms // 1000, "s")
            if not len(self.player.queue):
                await self.player.queue.put(*(track for track in self.tracks if track != self.track))
            remembering = asyncio.create_task(self.remember(self.player))
            async for event in self.player.events(Reconnected):
                print(f"was away for {event.away_s:.1f} s")
            remembering.cancel()  # the node came back without the player: on to the next round

    def started(self, event: TrackStart) -> None:
        self.track = event.track.info.identifier
        print("plays", event.track.info.title)

    async def remember(self, player: Player) -> None:
        while True:
            await asyncio.sleep(1)
            self.position_ms = player.position


async def main(player_id: str, *tracks: str) -> None:
    async with Node.from_env() as node:
        await Kept(node, player_id, list(tracks)).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

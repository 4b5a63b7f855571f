"""The packets of Opus files at the sockets and streams of a running node."""

import asyncio
import struct

import aiohttp

from tests.e2e.test_streams import packets_in_ogg, recorded, stream
from tests.support.audio_files import music, opus
from tests.support.e2e_players import create, delete, patch, state
from tests.support.packet_source import packets_in
from tests.support.running_node import RunningNode

PASSED = 8


def song(node: RunningNode, name: str, seconds: float, seed: int = 1) -> list[bytes]:
    """Puts an Opus file there, and returns its packets."""
    file = opus(music(seconds, seed=seed) * 0.8, bit_rate=128_000)
    (node.folder / name).write_bytes(file)
    return packets_in(file)


class Packets:
    """What comes on an Opus socket with headers: `numbered` are packets with their flags and positions in µs."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.numbered: list[tuple[int, int, bytes]] = []

    async def until(self, count: int) -> None:
        while len(self.numbered) < count:
            message = await self._socket.receive(timeout=20)
            assert message.type is aiohttp.WSMsgType.BINARY, message
            version, flags, size, _, position_us = struct.unpack(">BBHIQ", message.data[:16])
            assert (version, size) == (1, len(message.data) - 16)
            if not flags & 4:
                self.numbered.append((flags, position_us, message.data[16:]))


async def test_packets_say_that_they_are_the_sources_own_until_a_filter_changes_them(node: RunningNode) -> None:
    packets = song(node, "song.opus", 20.0)
    await create(node, "p", "song.opus")
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{node.url}/v0/players/p/ws?format=opus&header=1") as socket,
        session.ws_connect(f"{node.url}/v0/players/p/ws?format=opus&header=1&bitrate=128000") as named_socket,
    ):
        heard, named = Packets(socket), Packets(named_socket)
        await heard.until(50)
        assert [packet for _, _, packet in heard.numbered] == packets[:50]
        assert [flags for flags, _, _ in heard.numbered] == [PASSED | 1] + [PASSED] * 49
        assert [position for _, position, _ in heard.numbered] == [20_000 * frame for frame in range(50)]
        await patch(node, "p", "filters", {"volume": 0.4})
        sent = (await state(node, "p"))["quality"]["framesSent"]
        await heard.until(sent + 40)
        assert not any(flags & PASSED for flags, _, _ in heard.numbered[sent + 10 :])
        await named.until(60)
        assert not any(flags & PASSED for flags, _, _ in named.numbered)
        await delete(node, "p")


async def test_an_ogg_stream_holds_the_packets(node: RunningNode) -> None:
    packets = song(node, "song.opus", 6.0)
    await create(node, "p", "song.opus")
    plain, other = await asyncio.gather(
        recorded(stream(node, "ogg", "?burst=0"), 3), recorded(stream(node, "ogg", "?burst=0&bitrate=64000"), 3)
    )
    assert sum(packet in packets for packet in packets_in_ogg(plain)) >= 90
    assert not any(packet in packets for packet in packets_in_ogg(other))

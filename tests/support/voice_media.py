"""The two ends of a voice process: what a voice server hears over UDP, and what the node is told."""

import asyncio
import os
import secrets
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import nacl.bindings
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.support.eventually import Changes
from tests.support.sandboxing import SANDBOX
from tonearm.core.voice import DaveStatus, PacketCounts, VoiceSettings
from tonearm.core.voice_gateway import MODES
from tonearm.voice.media import Media, VoiceProcesses
from tonearm.voice.messages import MediaSetting

SILENCE: Final = b"\xf8\xff\xfe"
USER_ID, CHANNEL_ID = 3, 2
_HEAD: Final = struct.Struct(">BBHII")


@dataclass(frozen=True)
class Heard:
    """A packet of RTP, decrypted. `counter` is its nonce."""

    sequence: int
    timestamp: int
    ssrc: int
    counter: int
    payload: bytes


def opened(mode: str, key: bytes, packet: bytes) -> Heard:
    """The packet's content. Fails where the packet is not what Discord takes."""
    head, sealed, counter = packet[:12], packet[12:-4], packet[-4:]
    if mode == MODES[0]:
        payload = AESGCM(key).decrypt(counter + bytes(8), sealed, head)
    else:
        payload = nacl.bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(sealed, head, counter + bytes(20), key)
    first, kind, sequence, timestamp, ssrc = _HEAD.unpack(head)
    assert (first, kind) == (0x80, 0x78)
    return Heard(sequence, timestamp, ssrc, int.from_bytes(counter, "little"), payload)


class VoiceEnds(asyncio.DatagramProtocol):
    """One connection's voice server, and its reports."""

    def __init__(self, mode: str = MODES[0], *, dave_version: int = 0, is_large: bool = False) -> None:
        self.setting = MediaSetting(
            mode, os.urandom(32), secrets.randbits(32), USER_ID, CHANNEL_ID, dave_version, is_large
        )
        self.changes = Changes()
        self.packets: list[Heard] = []
        self.keepalives: list[int] = []
        self.said: list[bytes | tuple[int, Mapping[str, Any]]] = []
        self.silent_after: list[int] = []
        self.dave = DaveStatus()
        self.counts = PacketCounts()
        self.losses = 0
        self.udp: asyncio.DatagramTransport
        self.peer: tuple[str, int] = ("", 0)
        self.media: Media

    async def begin(self, processes: VoiceProcesses) -> None:
        loop = asyncio.get_running_loop()
        self.udp, _ = await loop.create_datagram_endpoint(lambda: self, ("127.0.0.1", 0))
        near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        near.setblocking(False)
        near.connect(self.udp.get_extra_info("sockname"))
        self.peer = near.getsockname()
        self.media = await processes.open(self.setting, near, self)

    @property
    def sounds(self) -> list[bytes]:
        return [packet.payload for packet in self.packets if packet.payload != SILENCE]

    @property
    def silences(self) -> int:
        return len(self.packets) - len(self.sounds)

    async def until_sounds(self, count: int) -> None:
        await self.changes.until(lambda: len(self.sounds) >= count, lambda: f"{count} packets, not {len(self.sounds)}")

    async def until_silent(self, times: int = 1) -> None:
        await self.changes.until(
            lambda: len(self.silent_after) >= times and self.silences >= 5,
            lambda: f"silent {times} times, not {self.silent_after}; {self.silences} silences",
        )

    # What comes over UDP

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        assert address == self.peer
        if len(data) == 8:
            self.keepalives.append(int.from_bytes(data, "little"))
        else:
            self.packets.append(opened(self.setting.mode, self.setting.key, data))
        self.changes.tell()

    # What the node is told

    def say(self, message: bytes | tuple[int, Mapping[str, Any]]) -> None:
        self.said.append(message)
        self.changes.tell()

    def silent(self, frames: int) -> None:
        self.silent_after.append(frames)
        self.changes.tell()

    def dave_changed(self, status: DaveStatus) -> None:
        self.dave = status
        self.changes.tell()

    def counted(self, packets: PacketCounts) -> None:
        self.counts = packets
        self.changes.tell()

    def process_lost(self) -> None:
        self.losses += 1
        self.changes.tell()


@asynccontextmanager
async def voice_processes(settings: VoiceSettings | None = None) -> AsyncIterator[VoiceProcesses]:
    processes = VoiceProcesses(settings or VoiceSettings(), SANDBOX)
    try:
        yield processes
    finally:
        await processes.stop()


@asynccontextmanager
async def voice_ends(processes: VoiceProcesses, *ends: VoiceEnds) -> AsyncIterator[None]:
    """Opens all of them at once."""
    await asyncio.gather(*(each.begin(processes) for each in ends))
    try:
        yield
    finally:
        for each in ends:
            each.media.close()
            each.udp.close()


def frames(count: int, first: int = 0) -> list[bytes]:
    """Packets that differ, and are no silence."""
    return [b"\xfc" + number.to_bytes(4, "big") * (1 + number % 60) for number in range(first, first + count)]

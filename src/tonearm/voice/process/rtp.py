"""RTP packets as Discord's voice servers take them: with numbers and timestamps, and encrypted.

RFC 3550, 5.1 defines the header, and docs.discord.com, "Voice Connections", the modes, which end in `rtpsize`. The
header is the additional data. The nonce is a counter of four bytes at the end of the packet.
"""

import secrets
import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.bindings import crypto_aead_xchacha20poly1305_ietf_encrypt

from tonearm.core.frame import FRAME_S, FRAME_SAMPLES
from tonearm.core.voice_gateway import MODES

SILENCE: Final = b"\xf8\xff\xfe"  # 20 ms, as Discord's clients send it

_HEADER: Final = struct.Struct(">HHII")
_VERSION_AND_TYPE: Final = 0x8078  # version 2 without extras; payload type 120, which is Opus there
_COUNTER: Final = struct.Struct("<I")
_PAST_LAST_COUNTER: Final = 2**32
_AES, _XCHACHA = MODES
_NONCE_REST: Final = {_AES: bytes(8), _XCHACHA: bytes(20)}  # after the counter

Seal: TypeAlias = Callable[[bytes, bytes, bytes], bytes]
"""Encrypts and signs: nonce, payload, additional data."""


def seal_of(mode: str, key: bytes) -> Seal:
    """Raises ValueError for an unknown mode or an invalid key."""
    if mode == _AES:
        return AESGCM(key).encrypt
    if mode == _XCHACHA and len(key) == 32:
        return lambda nonce, payload, head: crypto_aead_xchacha20poly1305_ietf_encrypt(payload, head, nonce, key)
    raise ValueError("no such mode of encryption")


class RtpStream:
    """The packets of one connection. Numbers and timestamps begin at random. The timestamp follows the clock, also in
    pauses. Within a run of frames it advances frame by frame, however unevenly the frames come."""

    __slots__ = ("_began_s", "_counter", "_first", "_nonce_rest", "_sample", "_seal", "_sequence", "_ssrc")

    def __init__(self, mode: str, key: bytes, ssrc: int, now_s: float) -> None:
        self._seal = seal_of(mode, key)
        self._nonce_rest = _NONCE_REST[mode]
        self._ssrc = ssrc
        self._sequence = secrets.randbits(16)
        self._first = secrets.randbits(32)
        self._began_s = now_s
        self._sample = -FRAME_SAMPLES  # of the newest packet, counted from the first timestamp
        self._counter = 0

    def begin_run(self, now_s: float) -> None:
        """The next packet begins a run: its timestamp is that of the clock."""
        frames = round((now_s - self._began_s) / FRAME_S)
        self._sample = max(self._sample, (frames - 1) * FRAME_SAMPLES)

    def skip(self, frames: int) -> None:
        """Advances the timestamp by frames that are not sent, because their time has passed."""
        self._sample += frames * FRAME_SAMPLES

    def packet(self, payload: bytes) -> bytes | None:
        """The packet with `payload`; None when the key has been used for as many packets as it may."""
        if self._counter == _PAST_LAST_COUNTER:
            return None
        self._sample += FRAME_SAMPLES
        self._sequence = sequence = (self._sequence + 1) & 0xFFFF
        stamp = (self._first + self._sample) & 0xFFFF_FFFF
        head = _HEADER.pack(_VERSION_AND_TYPE, sequence, stamp, self._ssrc)
        counter = _COUNTER.pack(self._counter)
        self._counter += 1
        return b"".join((head, self._seal(counter + self._nonce_rest, payload, head), counter))

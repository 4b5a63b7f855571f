"""The voice server's part of Discord's end-to-end encryption: the external sender of an MLS group, whose proposals add
and remove members, and the messages between them.

RFC 9420: 6 (framing), 12.1 (proposals), 12.1.8.1 (external senders); github.com/discord/dave-protocol, protocol.md.
"""

import struct
from typing import Final

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_MLS10: Final = b"\x00\x01"
_PUBLIC_MESSAGE, _WELCOME, _KEY_PACKAGE = b"\x00\x01", b"\x00\x03", b"\x00\x05"
_EXTERNAL, _PROPOSAL = b"\x02", b"\x02"
_ADD, _REMOVE = b"\x00\x01", b"\x00\x03"
_BASIC = b"\x00\x01"


def vector(data: bytes) -> bytes:
    """`opaque data<V>` (RFC 9420, 2.1.2)."""
    if len(data) < 1 << 6:
        return bytes((len(data),)) + data
    if len(data) < 1 << 14:
        return struct.pack(">H", len(data) | 1 << 14) + data
    return struct.pack(">I", len(data) | 1 << 31) + data


def read_vector(data: bytes, at: int) -> tuple[bytes, int]:
    """The vector at `at`, and where the next thing begins."""
    size = (1, 2, 4)[data[at] >> 6]
    length = int.from_bytes(data[at : at + size], "big") & (1 << 8 * size - 2) - 1
    start = at + size
    return data[start : start + length], start + length


class ExternalSender:
    """Proposes members of the group `group_id`."""

    def __init__(self, group_id: int) -> None:
        self._group_id = group_id.to_bytes(8, "big")
        self._key = ec.generate_private_key(ec.SECP256R1())
        point = self._key.public_key().public_bytes(
            serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint
        )
        self.package = vector(point) + _BASIC + vector(b"server")
        """The payload of op 25."""

    def proposals(self, epoch: int, *, add: tuple[bytes, ...] = (), remove: tuple[int, ...] = ()) -> bytes:
        """The payload of op 27 that appends these: key packages, and numbers of leaves."""
        bodies = [_ADD + package for package in add] + [_REMOVE + struct.pack(">I", leaf) for leaf in remove]
        return b"\x00" + vector(b"".join(self._message(epoch, body) for body in bodies))

    def _message(self, epoch: int, proposal: bytes) -> bytes:
        content = (
            vector(self._group_id) + struct.pack(">Q", epoch) + _EXTERNAL + struct.pack(">I", 0)
            + vector(b"") + _PROPOSAL + proposal
        )  # fmt: skip
        signed = _MLS10 + _PUBLIC_MESSAGE + content
        label = vector(b"MLS 1.0 FramedContentTBS") + vector(signed)
        signature = self._key.sign(label, ec.ECDSA(hashes.SHA256()))
        return _MLS10 + _PUBLIC_MESSAGE + content + vector(signature)


def split_commit_and_welcome(answer: bytes) -> tuple[bytes, bytes | None]:
    """Commit and welcome of the payload of op 28."""
    at = 4
    _, at = read_vector(answer, at)  # group id
    at += 8  # epoch
    assert answer[at] == 1, "the sender is a member"
    at += 5
    _, at = read_vector(answer, at)  # authenticated data
    assert answer[at] == 3, "it is a commit"
    at = _end_of_commit(answer, at + 1)
    _, at = read_vector(answer, at)  # signature
    _, at = read_vector(answer, at)  # confirmation tag
    _, at = read_vector(answer, at)  # membership tag
    return answer[:at], answer[at:] or None


def _end_of_commit(data: bytes, at: int) -> int:
    _, at = read_vector(data, at)  # proposals
    has_path, at = data[at], at + 1
    if not has_path:
        return at
    at = _end_of_leaf(data, at)
    _, at = read_vector(data, at)  # nodes of the path
    return at


def _end_of_leaf(data: bytes, at: int) -> int:
    _, at = read_vector(data, at)  # encryption key
    _, at = read_vector(data, at)  # signature key
    at += 2  # credential type: basic
    _, at = read_vector(data, at)
    for _ in range(5):  # versions, suites, extensions, proposals, credentials
        _, at = read_vector(data, at)
    source, at = data[at], at + 1
    if source == 1:  # a key package
        at += 16
    elif source == 3:  # a commit
        _, at = read_vector(data, at)  # parent hash
    _, at = read_vector(data, at)  # extensions
    _, at = read_vector(data, at)  # signature
    return at

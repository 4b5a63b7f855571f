"""The end-to-end encryption of one call (DAVE), which the voice server conducts. libdave, Discord's own library, does
the work.

The protocol is protocol.md of github.com/discord/dave-protocol. In an encrypted call no packet ever leaves unencrypted:
without a group no packet is sent. The node receives no audio, so nothing is decrypted here.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import dave

from tonearm.core.voice_gateway import is_whole
from tonearm.voice.messages import DAVE_VERSION

_HEALING_INTERVAL_S: Final = 2.0  # at most one request for a new welcome in this time
_MOST_PENDING: Final = 64  # of the transitions that are announced, some of which never come; the newest ones are kept
_CODE_GROUPS: Final = 6
_GROUP_BYTES: Final = 5
_MLS_PUBLIC_MESSAGE: Final = b"\x00\x01\x00\x01"  # RFC 9420, 6: version mls10, wire format mls_public_message

Say: TypeAlias = Callable[[int, "dict[str, int] | bytes"], None]
_Next: TypeAlias = tuple[int, dave.IKeyRatchet | None]
"""What a transition begins: the version of the protocol, and the bot's keys."""


class DaveCall:
    """The bot's own view of a call. `say` sends a message to the voice server."""

    def __init__(self, user_id: int, channel_id: int, ssrc: int, version: int, say: Say) -> None:
        self._user = str(user_id)
        self._channel_id = channel_id
        self._ssrc = ssrc
        self._say = say
        self._session = dave.Session(None)
        self._encryptor = dave.Encryptor()
        self._encryptor.assign_ssrc_to_codec(ssrc, dave.Codec.opus)
        self._members = {self._user}
        self._external_sender: bytes | None = None
        self._pending: dict[int, _Next] = {}  # by the transition that begins it
        self._has_key = False
        self._heals_from_s = 0.0
        self._wants_healing: int | None = None  # the transition that failed, until it may be reported
        self.version = version
        self.passes_through = version == 0
        self.epoch: int | None = None
        self.longest_step_ms = 0.0
        if version:
            self._begin_group()

    @property
    def is_ready(self) -> bool:
        """Whether packets of an encrypted call can leave."""
        return self._has_key and not self.passes_through

    @property
    def heals_at_s(self) -> float | None:
        return self._heals_from_s if self._wants_healing is not None else None

    @property
    def privacy_code(self) -> str | None:
        """The code that people see under the lock (protocol.md, "Displayable Codes"): six groups of five digits."""
        authenticator = self._session.get_last_epoch_authenticator() if self.is_ready else None
        if authenticator is None or len(authenticator) < _CODE_GROUPS * _GROUP_BYTES:
            return None
        starts = range(0, _CODE_GROUPS * _GROUP_BYTES, _GROUP_BYTES)
        groups = (int.from_bytes(authenticator[at : at + _GROUP_BYTES], "big") for at in starts)
        return " ".join(f"{group % 10**_GROUP_BYTES:0{_GROUP_BYTES}}" for group in groups)

    def encrypt(self, packet: bytes) -> bytes | None:
        """The packet as it may be sent; None if it may not be sent."""
        if self.passes_through:
            return packet
        return self._encryptor.encrypt(dave.MediaType.audio, self._ssrc, packet) if self._has_key else None

    def take(self, op: int, data: Mapping[str, Any] | bytes, now_s: float) -> None:
        """Handles a message of the voice server. Messages that it may not send are ignored."""
        begun_s = time.monotonic()
        if isinstance(data, bytes):
            self._take_binary(op, data, now_s)
        else:
            self._take_object(op, data)
        self.longest_step_ms = max(self.longest_step_ms, (time.monotonic() - begun_s) * 1000)

    def heal(self, now_s: float) -> None:
        """Requests a new welcome, if that is wanted and due."""
        if self._wants_healing is None or now_s < self._heals_from_s:
            return
        transition, self._wants_healing = self._wants_healing, None
        self._heals_from_s = now_s + _HEALING_INTERVAL_S
        self._say(31, {"transition_id": transition})
        self._begin_group()

    def _take_object(self, op: int, data: Mapping[str, Any]) -> None:
        if op == 11 and isinstance(users := data.get("user_ids"), list):
            self._members.update(user for user in users if isinstance(user, str))
        elif op == 13 and isinstance(user := data.get("user_id"), str) and user != self._user:
            self._members.discard(user)
        elif op == 21 and (transition := _number(data, "transition_id", 16)) is not None:
            version = _number(data, "protocol_version", 8)
            if version is not None and version <= DAVE_VERSION:
                self._prepare(transition, version)
        elif op == 22 and (transition := _number(data, "transition_id", 16)) is not None:
            self._execute(transition)
        elif op == 24 and _number(data, "epoch", 64) == 1:
            version = _number(data, "protocol_version", 8)
            if version is not None and 0 < version <= DAVE_VERSION:
                self._wants_healing = None
                self._begin_group()

    def _take_binary(self, op: int, data: bytes, now_s: float) -> None:
        if not data:  # libdave 1.1.0 crashes on an empty external sender
            return
        if op == 25:
            self._external_sender = data
            self._session.set_external_sender(data)
        elif op == 27:
            self.epoch = _epoch_of(data[1:]) if self.epoch is None else self.epoch
            answer = self._session.process_proposals(data, self._members)
            if answer is not None:
                self._say(28, answer)
        elif op in (29, 30) and len(data) > 2:
            transition = int.from_bytes(data[:2], "big")
            epoch = None
            roster: dave.RejectType | dict[int, list[int]] | None
            if op == 29:
                roster = self._session.process_commit(data[2:])
                if roster is dave.RejectType.ignored:
                    return
                before = _epoch_of(data[2:])
                epoch = None if before is None else before + 1
            else:
                roster = self._session.process_welcome(data[2:], self._members)
            if isinstance(roster, dict):
                self._wants_healing = None
                self.epoch = epoch
                self._prepare(transition, self._session.get_protocol_version())
            else:
                self._forget_keys()
                self._wants_healing = transition
                self.heal(now_s)

    def _begin_group(self) -> None:
        """Begins a new group, or a new attempt to join one."""
        self._forget_keys()
        self.epoch = None
        self._session.reset()
        self._session.init(DAVE_VERSION, self._channel_id, self._user, None)
        if self._external_sender is not None:
            self._session.set_external_sender(self._external_sender)
        package = self._session.get_marshalled_key_package()
        if package is not None:
            self._say(26, package)

    def _forget_keys(self) -> None:
        self._has_key = False
        self._encryptor.set_key_ratchet(None)
        self._pending = {transition: (version, None) for transition, (version, _) in self._pending.items()}

    def _prepare(self, transition: int, version: int) -> None:
        self._pending.pop(transition, None)  # it is the newest one now
        # The keys are those of this epoch: the group may be in a later epoch when the transition happens.
        self._pending[transition] = version, self._session.get_key_ratchet(self._user) if version else None
        if len(self._pending) > _MOST_PENDING:
            del self._pending[next(iter(self._pending))]
        if transition == 0:
            self._execute(0)
        else:
            self._say(23, {"transition_id": transition})

    def _execute(self, transition: int) -> None:
        following = self._pending.pop(transition, None)
        if following is None:
            return
        self.version, ratchet = following
        self.passes_through = self.version == 0
        self._has_key = ratchet is not None
        self._encryptor.set_key_ratchet(ratchet)


def _number(data: Mapping[str, Any], name: str, bits: int) -> int | None:
    value = data.get(name)
    return value if is_whole(value, 2**bits) else None


def _epoch_of(message: bytes) -> int | None:
    """The epoch that a public message of MLS belongs to (RFC 9420, 6: group_id<V>, epoch); None for other messages."""
    start = message.find(_MLS_PUBLIC_MESSAGE)
    if not 0 <= start <= 4 or len(message) < start + 5:  # after the length of a vector
        return None
    length = message[start + 4]
    if length > 0x3F:  # a group's id is that of a channel: 8 bytes
        return None
    epoch = message[start + 5 + length : start + 13 + length]
    return int.from_bytes(epoch, "big") if len(epoch) == 8 else None

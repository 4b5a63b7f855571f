"""Discord's voice gateway, version 8, as a state machine: it takes messages and the time, and returns what to do.

Hello (8) → Identify (0) → Ready (2) → discovery over UDP → Select (1) → Description (4); then heartbeats, messages for
the media half, and resumes (7, 9) of a lost socket. `core.voice` has the table of close codes. Sockets, discovery and
the encryption of packets are in `tonearm.voice`.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, TypeAlias, TypeGuard

from tonearm.core.voice import (
    NodeReason,
    Reaction,
    VoiceClose,
    VoiceCredentials,
    VoicePhase,
    VoiceTarget,
    close_rule,
    closed_by_server,
    closed_for,
    resume_delay_s,
)

MODES: Final = ("aead_aes256_gcm_rtpsize", "aead_xchacha20_poly1305_rtpsize")  # the best one first
LEFT: Final = 1000  # the code with which the node leaves: the session ends
LOST: Final = 4000  # the code with which the node closes the socket to resume: the session stays

_IDENTIFY, _SELECT, _HEARTBEAT, _SPEAKING, _RESUME = 0, 1, 3, 5, 7
_PASSED_BINARY: Final = frozenset({25, 27, 29, 30})
_KEY_BYTES: Final = 32
_BINARY_HEAD_BYTES: Final = 3  # seq of two bytes, opcode

_SETTLED_S: Final = 30.0  # after so long a connection gets its full number of tries again
_MOST_UNANSWERED: Final = 2  # heartbeats
_LEAST_INTERVAL_S, _MOST_INTERVAL_S = 0.05, 600.0
# Far more than a call of a hundred people needs who all join at once.
_WINDOW_S: Final = 10.0
_MOST_MESSAGES: Final = 3_000  # in a window
_MOST_BYTES: Final = 4 * 2**20
_MOST_WAITING: Final = 64  # messages that wait for the socket to be resumed


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a new socket. The previous one is not used any more."""


@dataclass(frozen=True, slots=True)
class Say:
    """A message for the server. `repr` hides it, because it may contain the token."""

    message: str | bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class HangUp:
    code: int


@dataclass(frozen=True, slots=True)
class Discover:
    """The UDP address of the server from Ready. It has not been checked yet."""

    ssrc: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Describe:
    mode: str
    key: bytes = field(repr=False)
    dave_version: int


@dataclass(frozen=True, slots=True)
class Pass:
    """A message for the media half: a JSON object, or the payload of a binary message."""

    op: int
    data: Mapping[str, Any] | bytes


@dataclass(frozen=True, slots=True)
class GiveUp:
    close: VoiceClose


Order: TypeAlias = Dial | Say | HangUp | Discover | Describe | Pass | GiveUp
Orders: TypeAlias = tuple[Order, ...]


class _Stage(Enum):
    WAITING = auto()  # for the next try
    DIALLING = auto()
    GREETING = auto()  # until Hello
    IDENTIFYING = auto()  # until Ready
    DISCOVERING = auto()
    SELECTING = auto()  # until the description
    RESUMING = auto()  # until Resumed
    LIVE = auto()
    ENDED = auto()


class VoiceGateway:
    """One connection to one voice server, over any number of sockets. Each method returns orders for the caller, in
    their sequence. The caller calls `tick` at `due_s`. `now_s` is a monotonic time; `chance` gives 0 to 1.
    """

    def __init__(
        self,
        target: VoiceTarget,
        credentials: VoiceCredentials,
        *,
        dave_version: int,
        connect_timeout_s: float,
        chance: Callable[[], float],
    ) -> None:
        self._target = target
        self._credentials = credentials
        self._dave_version = dave_version
        self._connect_timeout_s = connect_timeout_s
        self._chance = chance
        self._stage = _Stage.WAITING
        self._has_session = False
        self._tries = 0
        self._stage_ends_s: float | None = None  # when the try begins, or has taken too long
        self._live_since_s: float | None = None
        self._was_live = False
        self._was_silent = False  # over UDP, at the last try
        self._cause = closed_for(NodeReason.UNREACHABLE)  # of the last failed try
        self._interval_s = 0.0
        self._beats_s: float | None = None
        self._unanswered: dict[int, float] = {}  # heartbeats: their numbers, and when each was sent
        self._last_seq = -1
        self._waiting: list[Say] = []
        self._is_speaking = self._has_said_speaking = False
        self._window_s, self._messages, self._bytes = 0.0, 0, 0
        self.ssrc: int | None = None
        self.mode: str | None = None
        self.ping_ms: int | None = None
        self.resumes = 0
        self.new_sessions = 0
        self.passed_over = 0
        self.close: VoiceClose | None = None

    @property
    def phase(self) -> VoicePhase:
        if self._stage is _Stage.ENDED:
            return VoicePhase.CLOSED if self.close else VoicePhase.NONE
        if self._stage is _Stage.LIVE:
            return VoicePhase.CONNECTED
        return VoicePhase.RESUMING if self._has_session else VoicePhase.CONNECTING

    @property
    def due_s(self) -> float | None:
        return min((at_s for at_s in (self._stage_ends_s, self._beats_s) if at_s is not None), default=None)

    def start(self, now_s: float) -> Orders:
        return self._try_again(now_s)

    # The socket

    def opened(self) -> Orders:
        self._stage = _Stage.GREETING
        return ()

    def dial_failed(self, now_s: float, reason: NodeReason) -> Orders:
        """Retries an unreachable server, which may come back. Any other reason is a final refusal by the node."""
        if reason is not NodeReason.UNREACHABLE:
            return self.fail(reason)
        self._cause = closed_for(reason)
        return self._try_again(now_s)

    def lost(self, now_s: float, code: int | None = None, text: str = "") -> Orders:
        """To be called when the socket was closed, with the server's `code` or without one."""
        if self._stage is _Stage.ENDED:
            return ()
        rule = close_rule(code, answers_resume=self._stage is _Stage.RESUMING)
        self._cause = closed_by_server(code, text)
        if rule.reaction is Reaction.CLOSE:
            return self._end(self._cause)
        if rule.reaction is Reaction.IDENTIFY:
            self._forget_session()
            self.new_sessions += 1
            return self._dial(now_s)
        return self._try_again(now_s)

    def text(self, now_s: float, text: str) -> Orders:
        """A message of JSON."""
        if not self._admits(now_s, len(text)):
            return self.fail(NodeReason.PROTOCOL)
        message = _read(text)
        if message is None:
            return self._pass_over()
        op, data, seq = message
        self._last_seq = self._last_seq if seq is None else seq
        match op, self._stage:
            case _, _Stage.ENDED:
                return ()
            case 11 | 13 | 21 | 22 | 24, _:  # members, and the transitions of the end-to-end encryption
                return (Pass(op, data),)
            case 8, _:
                return self._greeted(now_s, data)
            case 2, _Stage.IDENTIFYING:
                return self._ready(data)
            case 4, _Stage.SELECTING:
                return self._described(now_s, data)
            case 6, _:
                return self._answered(now_s, data)
            case 9, _Stage.RESUMING:
                return self._resumed(now_s)
        return self._pass_over()

    def binary(self, now_s: float, message: bytes) -> Orders:
        if not self._admits(now_s, len(message)):
            return self.fail(NodeReason.PROTOCOL)
        if len(message) < _BINARY_HEAD_BYTES:
            return self._pass_over()
        self._last_seq = int.from_bytes(message[:2], "big")
        op = message[2]
        return (Pass(op, message[_BINARY_HEAD_BYTES:]),) if op in _PASSED_BINARY else self._pass_over()

    def pinged(self, now_s: float, size: int) -> Orders:
        """A ping or pong of the WebSocket, of so many bytes."""
        return () if self._admits(now_s, size) else self.fail(NodeReason.PROTOCOL)

    # The media half

    def discovered(self, host: str, port: int) -> Orders:
        """Takes the address of this machine as the server sees it."""
        if self._stage is not _Stage.DISCOVERING or self.mode is None:
            return ()
        self._stage, self._was_silent = _Stage.SELECTING, False
        data = {"address": host, "port": port, "mode": self.mode}
        return (_say(_SELECT, {"protocol": "udp", "data": data}),)

    def undiscovered(self, now_s: float) -> Orders:
        """To be called when the server did not answer over UDP. The second time in a row is final, so that a firewall
        is told soon."""
        if self._stage is not _Stage.DISCOVERING:
            return ()
        if self._was_silent:
            return self.fail(NodeReason.UDP_BLOCKED)
        self._was_silent, self._cause = True, closed_for(NodeReason.UDP_BLOCKED)
        return (HangUp(LEFT), *self._try_again(now_s))

    def speaking(self, is_speaking: bool) -> Orders:
        """Sends Speaking when its value changes. After a resume it is sent again."""
        if self._is_speaking == is_speaking:
            return ()
        self._is_speaking = is_speaking
        return self._say_speaking() if self._stage is _Stage.LIVE else ()

    def say(self, message: bytes | tuple[int, Mapping[str, Any]]) -> Orders:
        """Sends a message of the media half. It waits while the session has no socket."""
        order = Say(message) if isinstance(message, bytes) else _say(*message)
        if self._stage is _Stage.LIVE:
            return (order,)
        if self._has_session and len(self._waiting) < _MOST_WAITING:
            self._waiting.append(order)
        return ()

    def new_session(self, now_s: float) -> Orders:
        """Begins a new session with the same values, because the media half has lost its state."""
        if self._stage is _Stage.ENDED:
            return ()
        self._forget_session()
        self.new_sessions += 1
        self._cause = closed_for(NodeReason.RESTARTED)
        return (HangUp(LEFT), *self._try_again(now_s))

    def fail(self, reason: NodeReason) -> Orders:
        """Gives up the connection, by a decision of the node."""
        return () if self._stage is _Stage.ENDED else (HangUp(LEFT), *self._end(closed_for(reason)))

    def leave(self) -> Orders:
        """Ends the connection without a fault."""
        if self._stage is _Stage.ENDED:
            return ()
        said = self.speaking(False)
        self._end(None)
        return (*said, HangUp(LEFT))

    def tick(self, now_s: float) -> Orders:
        """Does everything that is due."""
        if self._stage_ends_s is not None and now_s >= self._stage_ends_s:
            if self._stage is _Stage.WAITING:
                return self._dial(now_s)
            self._cause = closed_for(NodeReason.TIMEOUT)
            return (HangUp(LOST if self._has_session else LEFT), *self._try_again(now_s))
        if self._beats_s is not None and now_s >= self._beats_s:
            if len(self._unanswered) >= _MOST_UNANSWERED:
                self._cause = closed_for(NodeReason.TIMEOUT)
                return (HangUp(LOST), *self._try_again(now_s))
            return self._beat(now_s)
        return ()

    # Implementation

    def _try_again(self, now_s: float) -> Orders:
        self._has_no_socket()
        if self._live_since_s is not None and now_s - self._live_since_s >= _SETTLED_S:
            self._tries = 0
        self._live_since_s = None
        delay_s = resume_delay_s(self._tries, self._chance())
        self._tries += 1
        if delay_s is None:
            return self._end(self._cause)
        if delay_s == 0:
            return self._dial(now_s)
        self._stage, self._stage_ends_s = _Stage.WAITING, now_s + delay_s
        return ()

    def _dial(self, now_s: float) -> Orders:
        self._has_no_socket()
        self._stage, self._stage_ends_s = _Stage.DIALLING, now_s + self._connect_timeout_s
        return (Dial(),)

    def _has_no_socket(self) -> None:
        self._beats_s = None
        self._unanswered.clear()

    def _forget_session(self) -> None:
        self._has_session = False
        self._waiting.clear()
        self.ssrc = self.mode = None
        self._has_said_speaking = False

    def _end(self, close: VoiceClose | None) -> Orders:
        self._stage, self._stage_ends_s, self.close = _Stage.ENDED, None, close
        self._has_no_socket()
        return () if close is None else (GiveUp(close),)

    def _greeted(self, now_s: float, data: Mapping[str, Any]) -> Orders:
        interval_ms = data.get("heartbeat_interval")
        if not isinstance(interval_ms, (int, float)) or isinstance(interval_ms, bool) or not 0 < interval_ms < 1e9:
            return self.fail(NodeReason.PROTOCOL)
        self._interval_s = min(max(interval_ms / 1000, _LEAST_INTERVAL_S), _MOST_INTERVAL_S)
        if self._stage is not _Stage.GREETING:
            return ()
        self._beats_s = now_s + self._interval_s * self._chance()
        target, credentials = self._target, self._credentials
        who = {"server_id": str(target.guild_id), "session_id": credentials.session_id, "token": credentials.token}
        if self._has_session:
            self._stage = _Stage.RESUMING
            return (_say(_RESUME, {**who, "seq_ack": self._last_seq}),)
        self._stage, self._last_seq = _Stage.IDENTIFYING, -1
        identity = {**who, "user_id": str(target.user_id), "max_dave_protocol_version": self._dave_version}
        return (_say(_IDENTIFY, identity),)

    def _ready(self, data: Mapping[str, Any]) -> Orders:
        ssrc, host, port, modes = (data.get(name) for name in ("ssrc", "ip", "port", "modes"))
        if not (is_whole(ssrc, 2**32) and isinstance(host, str) and is_whole(port, 2**16) and port):
            return self.fail(NodeReason.PROTOCOL)
        if not isinstance(modes, list):
            return self.fail(NodeReason.PROTOCOL)
        self.mode = next((mode for mode in MODES if mode in modes), None)
        if self.mode is None:
            return self.fail(NodeReason.NO_MODE)
        self._stage, self.ssrc = _Stage.DISCOVERING, ssrc
        return (Discover(ssrc, host, port),)

    def _described(self, now_s: float, data: Mapping[str, Any]) -> Orders:
        key, version = data.get("secret_key"), data.get("dave_protocol_version", 0)
        if not (isinstance(key, list) and len(key) == _KEY_BYTES and all(is_whole(byte, 256) for byte in key)):
            return self.fail(NodeReason.PROTOCOL)
        if data.get("mode") != self.mode or not is_whole(version, self._dave_version + 1):
            return self.fail(NodeReason.PROTOCOL)
        assert self.mode is not None
        self._has_session = True
        return (Describe(self.mode, bytes(key), version), *self._live(now_s))

    def _resumed(self, now_s: float) -> Orders:
        self.resumes += 1
        waiting, self._waiting = self._waiting, []
        return (*self._live(now_s), *waiting)

    def _live(self, now_s: float) -> Orders:
        if not self._was_live:
            self._tries = 0  # the tries that it took to connect
        self._stage, self._stage_ends_s, self._live_since_s, self._was_live = _Stage.LIVE, None, now_s, True
        return self._say_speaking() if self._is_speaking or self._has_said_speaking else ()

    def _say_speaking(self) -> Orders:
        self._has_said_speaking = self._is_speaking
        return (_say(_SPEAKING, {"speaking": int(self._is_speaking), "delay": 0, "ssrc": self.ssrc}),)

    def _beat(self, now_s: float) -> Orders:
        number = int(now_s * 1000)
        self._unanswered[number] = now_s
        self._beats_s = now_s + self._interval_s
        return (_say(_HEARTBEAT, {"t": number, "seq_ack": self._last_seq}),)

    def _answered(self, now_s: float, data: Mapping[str, Any]) -> Orders:
        number = data.get("t")
        sent_s = self._unanswered.get(number) if isinstance(number, int) else None
        if sent_s is not None:
            self.ping_ms = round((now_s - sent_s) * 1000)
        self._unanswered.clear()
        return ()

    def _pass_over(self) -> Orders:
        self.passed_over += 1
        return ()

    def _admits(self, now_s: float, size: int) -> bool:
        """Counts a message of the server. Returns False for a flood."""
        if now_s - self._window_s >= _WINDOW_S:
            self._window_s, self._messages, self._bytes = now_s, 0, 0
        self._messages += 1
        self._bytes += size
        return self._messages <= _MOST_MESSAGES and self._bytes <= _MOST_BYTES


def _say(op: int, data: Mapping[str, Any]) -> Say:
    return Say(json.dumps({"op": op, "d": data}, separators=(",", ":")))


def _read(text: str) -> tuple[int, Mapping[str, Any], int | None] | None:
    """Opcode, data and sequence number of a message; None for an invalid message."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not is_whole(message.get("op"), 256):
        return None
    data, seq = message.get("d"), message.get("seq")
    return message["op"], data if isinstance(data, dict) else {}, seq if is_whole(seq, 2**16) else None


def is_whole(value: object, below: int) -> TypeGuard[int]:
    """Whether the value is a JSON number without a fraction, at least 0 and below the limit."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < below

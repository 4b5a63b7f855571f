"""A player's voice in a Discord channel, as values and rules: its target, its status, and the meaning of each close
code.

The codes are those of Discord's voice gateway, version 8. Only `VoiceCredentials` contains token and session, and its
text does not show them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from tonearm.core.errors import BadRequest
from tonearm.core.frame import Output
from tonearm.core.metadata import Json
from tonearm.core.source_uri import normalise_host

RESUME_DELAYS_S: Final = (0.0, 1.0, 2.0, 4.0, 8.0)  # before each try to resume a lost connection
SPREAD: Final = 0.2  # of a delay, so that many connections that were lost together do not come back together
LATE_MS: Final = (5, 20, 100)  # packets that leave later than this are counted
MIN_BITRATE_BPS: Final = 8_000
MAX_BITRATE_BPS: Final = 510_000

_USUAL_PORT: Final = 443
_USUAL_OPUS: Final = Output("opus", passes_through=True)
_DIGITS: Final = re.compile(r"[0-9]{1,20}")
_LABELS: Final = re.compile(r"[0-9a-z_-]+(\.[0-9a-z_-]+)*")


@dataclass(frozen=True, slots=True)
class VoiceEndpoint:
    """A voice server. `host` is normalised, an address of IPv6 without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str) -> VoiceEndpoint:
    """Parses `host:port`, as Discord's gateway sends it. `wss://` before it and `/` after it are accepted; a missing
    port is 443. Raises BadRequest for any other text, with a message that contains nothing of it."""
    rest = text[len("wss://") :] if text[:6].lower() == "wss://" else text
    rest = rest.removesuffix("/")
    wrong = next((name for sign, name in _NOT_IN_ENDPOINT.items() if sign in rest), None)
    if wrong is not None:
        raise BadRequest(f'"endpoint" must be "host:port", as Discord sends it; yours has {wrong}.')
    host, separator, port = rest.rpartition(":")
    if not separator or rest.endswith("]"):
        host, port = rest, str(_USUAL_PORT)
    if re.fullmatch("[0-9]{1,5}", port) is None or not 0 < int(port) <= 65535:
        raise BadRequest('"endpoint" must be "host:port" with a port of 1 to 65535.')
    try:
        if not host or (":" in host and not host.startswith("[")):
            raise BadRequest("")
        return VoiceEndpoint(normalise_host(host), int(port))
    except BadRequest:
        raise BadRequest('"endpoint" must be "host:port", as Discord sends it; yours has no valid host.') from None


_NOT_IN_ENDPOINT: Final = {
    "://": 'another scheme than "wss"',
    "@": "a user",
    "?": "a query",
    "#": "a fragment",
    "/": "a path",
    **dict.fromkeys(("\\", " ", "%"), "a character that no host has"),
}


def host_pattern(text: str) -> str:
    """A normalised host, or `*.` and the normalised domain of the hosts. Raises ValueError."""
    prefix, name = ("*.", text[2:]) if text.startswith("*.") else ("", text)
    try:
        normal = normalise_host(name)
    except BadRequest:
        normal = ""
    is_name = _LABELS.fullmatch(normal) is not None
    if not (is_name or (normal and not prefix)) or (prefix and re.fullmatch("[0-9.]+", normal)):
        raise ValueError(
            f'must hold hosts such as "*.discord.media" or "127.0.0.1", without scheme and port; "{text}" is none'
        )
    return prefix + normal


def is_admitted(host: str, patterns: Iterable[str]) -> bool:
    """Whether one of `patterns`, made by `host_pattern`, matches the normalised `host`. `*.discord.media` matches every
    name below the domain, but not the domain itself."""
    return any(host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern for pattern in patterns)


def parse_id(text: str) -> int | None:
    """A Discord id: decimal, 1 to 2^64 - 1. None for any other text."""
    number = int(text) if _DIGITS.fullmatch(text) else 0
    return number if 0 < number < 2**64 and text[0] != "0" else None


@dataclass(frozen=True, slots=True)
class VoiceTarget:
    """The voice channel of a player. An `endpoint` of None: the server is gone, and Discord has not named another one
    yet. `bitrate_bps` is the channel's; None if the bot did not give it."""

    guild_id: int
    channel_id: int
    user_id: int
    endpoint: VoiceEndpoint | None
    bitrate_bps: int | None = None


def record_of(target: VoiceTarget) -> Json:
    """The saved record of a voice. It describes the voice and holds no secret."""
    ids = {"channelId": target.channel_id, "guildId": target.guild_id, "userId": target.user_id}
    return {name: str(number) for name, number in ids.items()}


def target_of(record: Json) -> VoiceTarget | None:
    """The target in a record made by `record_of`; None for any other value."""
    if not isinstance(record, dict):
        return None
    texts = [record.get(name) for name in ("guildId", "channelId", "userId")]
    numbers = [parse_id(text) if isinstance(text, str) else None for text in texts]
    guild_id, channel_id, user_id = numbers
    if guild_id is None or channel_id is None or user_id is None:
        return None
    return VoiceTarget(guild_id, channel_id, user_id, endpoint=None)


@dataclass(frozen=True, slots=True)
class VoiceSettings:
    """`[voice]` of the configuration. `endpoints` are made by `host_pattern`. With 0 `processes` there are as many as
    needed. An empty `udp_bind`, the local address, and `udp_ports` of None leave the choice to the system. `opus` is
    the form of the packets if the bot gives no bitrate."""

    endpoints: tuple[str, ...] = ("*.discord.media",)
    private_networks: bool = False
    processes: int = 0
    max_connections: int = 1000
    connect_timeout_s: float = 10.0
    udp_bind: str = ""
    udp_ports: range | None = None
    opus: Output = _USUAL_OPUS


@dataclass(frozen=True, slots=True, repr=False)
class VoiceCredentials:
    """The secrets that let the bot connect. `repr` and `str` do not show them, so no log and no traceback can."""

    token: str
    session_id: str

    def __repr__(self) -> str:
        return "VoiceCredentials(…)"


class VoicePhase(StrEnum):
    """The `state` of a voice. `none`: the player has no voice connection. `resuming`: the socket is lost, and the audio
    continues. `closed`: the node gave up; `close.action` says what the bot should do."""

    NONE = "none"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    RESUMING = "resuming"
    CLOSED = "closed"


class ClosedBy(StrEnum):
    """Which side ended a voice: the voice server, the node, or the bot by its request."""

    SERVER = "server"
    NODE = "node"
    BOT = "bot"


class VoiceAction(StrEnum):
    """What the bot should do after a close. `wait`: wait for the next voice event of its gateway. `rejoin`: send the
    voice state (op 4) again and PUT the new values. `stop`: not retry, and have an operator look at the cause. `fix`:
    the node lacks something that the connection requires."""

    WAIT = "wait"
    REJOIN = "rejoin"
    STOP = "stop"
    FIX = "fix"


class Reaction(StrEnum):
    """How the node reacts to the end of a socket. `resume`: it resumes the same session, a few times. `identify`: it
    begins one new session with the same values. `close`: it gives up at once."""

    RESUME = "resume"
    IDENTIFY = "identify"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class CloseRule:
    """`reason` is shown if the server gave none. `action` is for the bot, once the node has given up."""

    reaction: Reaction
    action: VoiceAction
    reason: str


_LOST: Final = CloseRule(Reaction.RESUME, VoiceAction.REJOIN, "the connection was lost")


def _closed(action: VoiceAction, reason: str) -> CloseRule:
    return CloseRule(Reaction.CLOSE, action, reason)


CLOSES: Final[Mapping[int, CloseRule]] = {
    1001: _LOST,
    1006: _LOST,
    4001: _closed(VoiceAction.REJOIN, "unknown opcode"),
    4002: _closed(VoiceAction.REJOIN, "failed to decode payload"),
    4003: _closed(VoiceAction.REJOIN, "not authenticated"),
    4004: _closed(VoiceAction.REJOIN, "authentication failed"),
    4005: _closed(VoiceAction.REJOIN, "already authenticated"),
    4006: _closed(VoiceAction.REJOIN, "session no longer valid"),
    4009: _closed(VoiceAction.REJOIN, "session timeout"),
    4011: _closed(VoiceAction.REJOIN, "server not found"),
    4012: _closed(VoiceAction.FIX, "unknown protocol"),
    4014: _closed(VoiceAction.WAIT, "disconnected"),
    4015: replace(_LOST, reason="voice server crashed"),
    4016: _closed(VoiceAction.FIX, "unknown encryption mode"),
    4017: _closed(VoiceAction.FIX, "end-to-end encryption required"),
    4020: _closed(VoiceAction.REJOIN, "bad request"),
    4021: _closed(VoiceAction.STOP, "rate limited"),
    4022: _closed(VoiceAction.WAIT, "call terminated"),
}
"""By the code of the close. Others are lost connections, too: what Discord adds is tried a few times, not for ever."""

_NEW_SESSION_AFTER: Final = frozenset({4006, 4009, 4011, 4020})


def close_rule(code: int | None, *, answers_resume: bool = False) -> CloseRule:
    """The rule for the end of a socket. A `code` of None: it ended without a code, or two heartbeats had no answer.
    `answers_resume`: the end is the server's refusal of a Resume."""
    rule = _LOST if code is None else CLOSES.get(code, _LOST)
    if answers_resume and code in _NEW_SESSION_AFTER:
        return replace(rule, reaction=Reaction.IDENTIFY)
    return rule


class NodeReason(StrEnum):
    """Why the node, or the bot, ended a connection: `close.reason` if the server gave none."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    REDIRECT = "redirect"
    UDP_BLOCKED = "udp_blocked"
    NO_MODE = "no_mode"
    PROTOCOL = "protocol"
    ENDPOINT_BLOCKED = "endpoint_blocked"
    ENDPOINT_GONE = "endpoint_gone"
    RESTARTED = "restarted"
    NO_PROCESS = "no_process"
    LIMIT_REACHED = "limit_reached"


_ACTIONS: Final[Mapping[NodeReason, VoiceAction]] = {
    NodeReason.UNREACHABLE: VoiceAction.REJOIN,
    NodeReason.TIMEOUT: VoiceAction.REJOIN,
    NodeReason.TLS: VoiceAction.FIX,
    NodeReason.REDIRECT: VoiceAction.FIX,
    NodeReason.UDP_BLOCKED: VoiceAction.FIX,
    NodeReason.NO_MODE: VoiceAction.FIX,
    NodeReason.PROTOCOL: VoiceAction.FIX,
    NodeReason.ENDPOINT_BLOCKED: VoiceAction.FIX,
    NodeReason.ENDPOINT_GONE: VoiceAction.WAIT,
    NodeReason.RESTARTED: VoiceAction.REJOIN,
    NodeReason.NO_PROCESS: VoiceAction.FIX,
    NodeReason.LIMIT_REACHED: VoiceAction.FIX,
}


@dataclass(frozen=True, slots=True)
class VoiceClose:
    """Why a voice was given up. `code` is Discord's; None if the node or the bot ended it."""

    code: int | None
    reason: str
    by: ClosedBy
    action: VoiceAction


def closed_by_server(code: int | None, text: str = "") -> VoiceClose:
    """The close by the server, with the server's `text` if it sent one."""
    rule = close_rule(code)
    return VoiceClose(code, text or rule.reason, ClosedBy.SERVER, rule.action)


def closed_for(reason: NodeReason) -> VoiceClose:
    by = ClosedBy.BOT if reason is NodeReason.ENDPOINT_GONE else ClosedBy.NODE
    return VoiceClose(None, reason.value, by, _ACTIONS[reason])


def resume_delay_s(tries: int, chance: float) -> float | None:
    """The wait before the next try after `tries` failed ones, spread by `chance` of 0 to 1; None: give up."""
    return RESUME_DELAYS_S[tries] * (1 + SPREAD * (2 * chance - 1)) if tries < len(RESUME_DELAYS_S) else None


@dataclass(frozen=True, slots=True)
class DaveStatus:
    """The end-to-end encryption. Version 0: there is none. `privacy_code`: the code that people see under the lock."""

    version: int = 0
    ready: bool = False
    epoch: int | None = None
    privacy_code: str | None = None


@dataclass(frozen=True, slots=True)
class PacketCounts:
    """`dropped`: frames that were too old to be sent after a stall."""

    sent: int = 0
    silence: int = 0
    dropped: int = 0

    def __add__(self, other: "PacketCounts") -> "PacketCounts":
        return PacketCounts(self.sent + other.sent, self.silence + other.silence, self.dropped + other.dropped)


@dataclass(frozen=True, slots=True)
class VoiceStatus:
    """The status of a player's voice. `since_ms`: the time of the last change of `phase`, in ms since 1970. `ping_ms`:
    the time from a heartbeat to its answer."""

    phase: VoicePhase
    target: VoiceTarget
    since_ms: int
    ssrc: int | None = None
    mode: str | None = None
    ping_ms: int | None = None
    dave: DaveStatus = DaveStatus()
    packets: PacketCounts = PacketCounts()
    resumes: int = 0
    close: VoiceClose | None = None

    @property
    def sounds(self) -> bool:
        """Whether the voice counts as a listener."""
        return self.phase in (VoicePhase.CONNECTED, VoicePhase.RESUMING)

    @property
    def can_flow(self) -> bool:
        """Whether the next frame would be audible in the channel."""
        return self.sounds and (not self.dave.version or self.dave.ready)


def restarted(target: VoiceTarget, now_ms: int) -> VoiceStatus:
    """The status of a voice that ended with its process."""
    return VoiceStatus(VoicePhase.CLOSED, target, now_ms, close=closed_for(NodeReason.RESTARTED))


def is_worth_telling(before: VoiceStatus | None, now: VoiceStatus | None) -> bool:
    """Whether anything has changed but the figures and the end-to-end encryption, which change all the time."""
    return _steady(before) != _steady(now)


def _steady(status: VoiceStatus | None) -> VoiceStatus | None:
    if status is None:
        return None
    return replace(status, dave=DaveStatus(), packets=PacketCounts(), ping_ms=None, resumes=0)


@dataclass(frozen=True, slots=True)
class VoiceProcessFigures:
    """One voice process. Its CPU time and memory are listed with the node's other processes."""

    pid: int
    connections: int


@dataclass(frozen=True, slots=True)
class VoiceFigures:
    """All voices of a node. Counts are since its start. `packets_late`: the packets that were later than 5, 20 and
    100 ms. `closes`: by Discord's code, or by the node's reason. `handshake_ms`: for the newest connection, the time
    from the request until its voice process could send. `longest_mls_ms`: the longest step of a group's key agreement.
    `process_restarts`: processes that ended and were replaced."""

    connections: Mapping[VoicePhase, int] = field(default_factory=dict)
    packets: PacketCounts = PacketCounts()
    packets_late: Mapping[int, int] = field(default_factory=dict)
    resumes: int = 0
    reconnects: int = 0
    closes: Counter[str] = field(default_factory=Counter)
    handshake_ms: float | None = None
    longest_mls_ms: float = 0.0
    process_restarts: int = 0
    processes: tuple[VoiceProcessFigures, ...] = ()

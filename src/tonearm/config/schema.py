"""The node's configuration as one frozen, validated value. Its field descriptions are its documentation."""

import ipaddress
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from tonearm.config.patterns import compile_pattern
from tonearm.core.errors import BadRequest
from tonearm.core.source_uri import normalise_host
from tonearm.version import VERSION


def _no_outer_blanks(password: SecretStr) -> SecretStr:
    text = password.get_secret_value()
    if text != text.strip():
        raise ValueError("must not begin or end with blanks: no client could send them in a header")
    if not text.isprintable():
        raise ValueError("must not hold control characters: no client could send them in a header")
    return password


def _a_host(host: str) -> str:
    if not host or host != host.strip() or not host.isprintable():
        raise ValueError('must be an address or a name to listen on, such as "127.0.0.1"')
    return host


_ORIGIN: Final = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")


def _host_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_host_name(name) for name in names)


def _host_patterns(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f".{_host_name(name[1:])}" if name.startswith(".") else _host_name(name) for name in names)


def _host_name(name: str) -> str:
    """In the form in which hosts are compared: lower case ASCII, without a trailing dot."""
    try:
        return normalise_host(name)
    except BadRequest:
        raise ValueError(
            f'must hold names of hosts such as "radio.example", without scheme and port; "{name}" is none'
        ) from None


def _origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    for origin in origins:
        if _ORIGIN.fullmatch(origin) is None:
            raise ValueError(
                f'must hold origins such as "https://radio.example:8443", without a path; "{origin}" is none'
            )
    return origins


def _a_header_value(text: str) -> str:
    if text != text.strip() or not text.isprintable() or not text.isascii():
        raise ValueError("must be printable ASCII without outer blanks: it is sent as a header")
    return text


def _compile_all(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        compile_pattern(pattern)
    return patterns


def _auto_or_bool_or_folders(value: object) -> object:
    if value == "auto" or isinstance(value, bool):
        return value
    if isinstance(value, list | tuple) and all(isinstance(folder, str) and folder for folder in value):
        return tuple(value)
    raise ValueError('must be "auto", true, false, or a list of folders such as ["/srv/music"]')


def _auto_or_bool(value: object) -> object:
    if value == "auto" or isinstance(value, bool):
        return value
    raise ValueError('must be "auto", true or false')


# Lists come as lists from TOML; a frozen value holds tuples, so these fields convert although the rest is strict.
_Texts = Annotated[tuple[str, ...], Field(strict=False)]
_Patterns = Annotated[_Texts, AfterValidator(_compile_all)]
_HostNames = Annotated[_Texts, AfterValidator(_host_names)]
_HostPatterns = Annotated[_Texts, AfterValidator(_host_patterns)]
_Origins = Annotated[_Texts, AfterValidator(_origins)]
_Files = Annotated[Literal["auto"] | bool | tuple[str, ...], BeforeValidator(_auto_or_bool_or_folders)]
_PrivateNetworks = Annotated[Literal["auto"] | bool, BeforeValidator(_auto_or_bool)]
_Sandbox = Literal["auto", "required", "off"]
_Seconds = Annotated[float, Field(gt=0, le=3600)]


class _Section(BaseModel):
    # Errors must not repeat what was given: it may be a password.
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


class ServerConfig(_Section):
    """Where the node listens, and who is let in."""

    host: Annotated[str, AfterValidator(_a_host)] = Field(
        default="127.0.0.1", description='Address to listen on; "0.0.0.0" for every IPv4 address of the machine.'
    )
    port: int = Field(default=2333, ge=0, le=65535, description="Port to listen on; 0 lets the system choose one.")
    password: Annotated[SecretStr, AfterValidator(_no_outer_blanks)] = Field(
        default=SecretStr(""), description="What clients send as the Authorization header; empty lets everyone in."
    )
    hosts: _HostNames = Field(
        default=(),
        description="Names under which a node without password is reached, beside addresses and localhost, such as "
        "that of a proxy in front of it.",
    )
    allowed_origins: _Origins = Field(
        default=(),
        description='Origins whose pages may use the node from a browser, such as "https://radio.example", beside '
        "pages of the node's own address.",
    )
    max_connections: int = Field(
        default=10_000, ge=1, description="Connections at a time; never more than three quarters of the descriptors."
    )
    stranger_share: float = Field(
        default=0.25,
        gt=0,
        le=1,
        description="Share of max_connections for those that have not been let in yet, by a whole request with the "
        "password. The oldest of them gives way.",
    )
    request_timeout_s: _Seconds = Field(
        default=15.0, description="How long a request, its head and its body, may take to arrive, in seconds."
    )
    keepalive_timeout_s: _Seconds = Field(
        default=75.0, description="How long a connection is kept for the next request, in seconds."
    )
    max_load: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the last 10 s in which the node was late, from which on no player is created (429); "
        "0 creates them always.",
    )

    @property
    def listens_on_loopback_only(self) -> bool:
        """True when only programs of this machine can reach the node."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class PlayerConfig(_Section):
    """Limits of players. Beyond them a request is answered with 429."""

    first_listener_wait_ms: int = Field(
        default=1000,
        ge=0,
        le=3_600_000,
        description="How long a new player waits for its first listener before it plays.",
    )
    expire_s: float = Field(
        default=0.0,
        ge=0,
        description="A player to which nobody listens or speaks for so many seconds is deleted; 0 keeps all of them.",
    )
    max_players: int = Field(default=10_000, ge=1, description="Players at a time.")
    max_waiting_tracks: int = Field(default=10_000, ge=1, description="Waiting tracks in one player's queue.")
    tags_ahead: int = Field(
        default=5,
        ge=0,
        le=100,
        description="Of how many waiting tracks of a player titles and lengths are read ahead, for a queue that shows "
        "them; 0 reads none.",
    )
    max_waiting_bytes: int = Field(
        default=16_777_216, ge=4096, description="URIs and metadata of one player's waiting tracks together, in bytes."
    )
    max_listeners: int = Field(default=1_000, ge=1, description="Listeners of one player.")
    max_metadata_bytes: int = Field(
        default=65_536,
        ge=2,
        le=1_048_576,
        description="Metadata of a player, after each change, and of a track, as JSON in bytes; more is answered with "
        "400.",
    )
    max_event_bytes: int = Field(
        default=1_048_576,
        ge=4096,
        description="Events that one player keeps for clients that come back, in bytes; the oldest go first. A client "
        "twice as far behind is closed.",
    )


class SourcesConfig(_Section):
    """What may be opened, and how long to wait for it."""

    allowed: _Patterns = Field(
        default=(),
        description="Regular expressions (RE2). When there are any, only URIs in which one is found may be opened.",
    )
    blocked: _Patterns = Field(
        default=(), description="Regular expressions (RE2). A URI in which one is found is refused, even when allowed."
    )
    allowed_hosts: _HostPatterns = Field(
        default=(),
        description='Names of hosts, ".radio.example" for a name and all below it. When there are any, links must lead '
        "to one of them, or match `allowed`.",
    )
    files: _Files = Field(
        default="auto",
        description='Local files: true, false, a list of folders, or "auto": only while the node listens on '
        "loopback only, and not for requests that come through a proxy.",
    )
    private_networks: _PrivateNetworks = Field(
        default="auto",
        description='Addresses of private networks and of this machine: true, false, or "auto": only while the node '
        "listens on loopback only, and not for requests that come through a proxy.",
    )
    connect_timeout_s: _Seconds = Field(default=5.0, description="Name lookup, connecting and TLS, in seconds.")
    headers_timeout_s: _Seconds = Field(
        default=10.0, description="From the request to the answer's headers, in seconds."
    )
    stall_timeout_s: _Seconds = Field(default=10.0, description="Longest silence within an answer's body, in seconds.")
    start_timeout_s: _Seconds = Field(
        default=30.0,
        description="How long a track whose turn has come may take to give its first audio, whatever it waits for, in "
        "seconds.",
    )
    user_agent: Annotated[str, AfterValidator(_a_header_value)] = Field(
        default=f"tonearm/{VERSION}", description="The User-Agent header of requests to sources."
    )


class ResolverConfig(_Section):
    """Finding the audio behind a page's address. Needs the extra `resolver` (yt-dlp)."""

    enabled: bool = Field(default=False, description="Whether pages are resolved; where not, only direct URIs play.")
    timeout_ms: int = Field(
        default=20_000, ge=1, le=3_600_000, description="How long resolving may take, in milliseconds."
    )
    sites: _Texts = Field(
        default=(),
        description='Names of yt-dlp extractors that may be used, such as "youtube" or "soundcloud". "all", like an '
        'empty list, is every one but "generic", which looks for media in any page.',
    )
    sandbox: _Sandbox = Field(
        default="auto",
        description='What the kernel keeps from the processes that resolve: "auto", all that it can; "required", the '
        'node does not start without seccomp; "off".',
    )


class DecoderConfig(_Section):
    """The processes that decode."""

    processes: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="How many at most have players; 0 means one for each core. One more is kept ready.",
    )
    memory_limit_mb: int = Field(default=1024, ge=256, description="Address space of each, in MiB.")
    sandbox: _Sandbox = Field(
        default="auto",
        description='What the kernel keeps from the processes that decode: "auto", all that it can; "required", the '
        'node does not start without seccomp; "off".',
    )


class OpusConfig(_Section):
    """How audio is encoded for listeners who want Opus: `/ws?format=opus` and `/stream.ogg`."""

    bitrate_bps: int = Field(
        default=128_000, ge=6_000, le=510_000, description="Bits a second, where a listener names no other bitrate."
    )
    complexity: int = Field(
        default=5, ge=0, le=10, description="0 to 10: each step takes more time for a little more quality."
    )
    fec: bool = Field(
        default=False,
        description="Whether speech at low bitrates carries what repairs a lost packet (forward error correction).",
    )
    signal: Literal["auto", "music", "voice"] = Field(
        default="auto", description='What the encoder is to expect: "auto", "music" or "voice".'
    )
    variable: bool = Field(default=True, description="Whether packets vary in size with what is in them.")


class StreamConfig(_Section):
    """The endless streams over HTTP: `/stream.ogg`, `/stream.mp3`, `/stream.wav`."""

    burst_ms: int = Field(
        default=2000,
        ge=0,
        le=10_000,
        description="How much an Ogg or MP3 listener gets at once when it connects: browsers begin sooner and do not "
        "stall, and hear everything so much later.",
    )
    mp3_bitrate_bps: Literal[
        32_000, 40_000, 48_000, 56_000, 64_000, 80_000, 96_000, 112_000, 128_000, 160_000, 192_000, 224_000, 256_000,
        320_000,
    ] = Field(default=128_000, description="Bits a second of MP3, where none is asked for.")  # fmt: skip


class LoggingConfig(_Section):
    """What the node logs on stderr."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description='The lowest level that is logged: "debug", "info", "warning" or "error".'
    )


class Config(_Section):
    """All of it. Every key has a default."""

    server: ServerConfig = ServerConfig()
    player: PlayerConfig = PlayerConfig()
    sources: SourcesConfig = SourcesConfig()
    resolver: ResolverConfig = ResolverConfig()
    decoder: DecoderConfig = DecoderConfig()
    opus: OpusConfig = OpusConfig()
    stream: StreamConfig = StreamConfig()
    logging: LoggingConfig = LoggingConfig()

    @property
    def allows_files(self) -> bool:
        """True when any local file may be opened."""
        files = self.sources.files
        return self.server.listens_on_loopback_only if files == "auto" else bool(files)

    @property
    def allows_private_networks(self) -> bool:
        private_networks = self.sources.private_networks
        return self.server.listens_on_loopback_only if private_networks == "auto" else private_networks


SECTIONS: Final[Mapping[str, type[BaseModel]]] = MappingProxyType(
    {
        "server": ServerConfig,
        "player": PlayerConfig,
        "sources": SourcesConfig,
        "resolver": ResolverConfig,
        "decoder": DecoderConfig,
        "opus": OpusConfig,
        "stream": StreamConfig,
        "logging": LoggingConfig,
    }
)
"""The sections by name, in the order of the file."""

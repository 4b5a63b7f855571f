"""The node's configuration as one frozen, validated value. Its field descriptions are its documentation."""

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tonearm import VERSION
from tonearm.config.patterns import compile_pattern
from tonearm.core.cluster import is_node_name
from tonearm.core.errors import BadRequest
from tonearm.core.policy import auto_allows
from tonearm.core.service_links import MIRRORED_SEARCHES
from tonearm.core.source_uri import is_loopback, normalise_host
from tonearm.core.voice import host_pattern


def _no_outer_blanks(password: SecretStr) -> SecretStr:
    text = password.get_secret_value()
    if text != text.strip():
        raise ValueError("must not begin or end with blanks: no client could send them in a header")
    if not text.isprintable():
        raise ValueError("must not contain control characters: no client could send them in a header")
    return password


def _a_host(host: str) -> str:
    if not host or host != host.strip() or not host.isprintable():
        raise ValueError('must be an address or a name to listen on, such as "127.0.0.1"')
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError(
                'must be an address or a name, such as "127.0.0.1" or "::1", with the port in server.port'
            ) from None
    return host


_ORIGIN: Final = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?")
_MAY_BE_OPEN: Final = ("/metrics", "/healthz", "/readyz")


def _host_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_host_name(name) for name in names)


def _host_patterns(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f".{_host_name(name[1:])}" if name.startswith(".") else _host_name(name) for name in names)


def _host_name(name: str) -> str:
    """`name` as `normalise_host` makes it, for comparing."""
    try:
        return normalise_host(name)
    except BadRequest:
        raise ValueError(
            f'must list host names such as "radio.example", without scheme and port; "{name}" is not one'
        ) from None


def _origins(origins: tuple[str, ...]) -> tuple[str, ...]:
    for origin in origins:
        if _ORIGIN.fullmatch(origin) is None:
            raise ValueError(
                f'must list origins such as "https://radio.example:8443", without a path; "{origin}" is not one'
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


def _open_paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        if path not in _MAY_BE_OPEN:
            raise ValueError(f"can list only {', '.join(_MAY_BE_OPEN)}; all other paths need the password")
    return paths


_ID_PATTERN: Final = re.compile(r"[A-Za-z0-9._~:@+\-*?]{1,128}")


def _id_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        if _ID_PATTERN.fullmatch(pattern) is None:
            raise ValueError(
                "must list player ids: 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ + -, with * for any number "
                f'of characters and ? for one; "{pattern}" is not an id'
            )
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


_SEARCH: Final = re.compile(r"[a-z][a-z0-9]{0,30}search[a-z]*")


def _searches(keys: tuple[str, ...]) -> tuple[str, ...]:
    for key in keys:
        if _SEARCH.fullmatch(key) is None or key in MIRRORED_SEARCHES:
            raise ValueError(f'must list searches of sites that play, such as "ytsearch"; "{key}" is not one')
    if not keys:
        raise ValueError('must list at least one search, such as "ytsearch"; mirror.enabled = false turns mirrors off')
    return keys


def _a_search(key: str) -> str:
    if _SEARCH.fullmatch(key) is None:
        raise ValueError('must be the word before a search, such as "ytsearch"')
    return key


def _parts_of(url: str) -> SplitResult | None:
    """None for a host or a port that is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # which raises, too
    except ValueError:
        return None
    return parts if parts.hostname else None


_OF_PROXIES: Final = (("http", ""), ("http", "/"), ("https", ""), ("https", "/"))  # scheme and path


def _proxies(urls: tuple[str, ...]) -> tuple[str, ...]:
    for url in urls:
        parts = _parts_of(url)
        if parts is None or parts.port is None or parts.query or (parts.scheme, parts.path) not in _OF_PROXIES:
            raise ValueError('each must be written "http://HOST:PORT" or "http://NAME:PASSWORD@HOST:PORT"')
    return urls


def _extractor_args(given: object) -> object:
    """A single text stands for a list of one, as yt-dlp's command line has it."""
    if not isinstance(given, dict):
        return given
    return {
        site: {
            name: (values,) if isinstance(values, str) else tuple(values) if isinstance(values, list) else values
            for name, values in of_site.items()
        }
        if isinstance(of_site, dict)
        else of_site
        for site, of_site in given.items()
    }


def _a_node_name(text: str) -> str:
    if not is_node_name(text):
        raise ValueError("must have 1 to 64 letters, digits, - and _")
    return text


def _a_node_name_or_none(text: str) -> str:
    return _a_node_name(text) if text else ""


def _engine_urls(text: str) -> str:
    urls = [url.strip() for url in text.split(",")] if text else []
    if not all(re.fullmatch(r"(nats|tls)://[A-Za-z0-9._\[\]:-]+/?", url) and _parts_of(url) for url in urls):
        raise ValueError(
            'must be written "nats://HOST:PORT", several separated by commas; cluster.user and cluster.password_file '
            "take the user and the password"
        )
    return ",".join(urls)


def _a_country(text: str) -> str:
    if re.fullmatch("[A-Za-z]{2}", text) is None:
        raise ValueError('must be the two letters of a country, such as "US" or "de"')
    return text


def _a_service_url(text: str) -> str:
    if not (re.fullmatch(r"https?://[A-Za-z0-9._\[\]:-]+(/[A-Za-z0-9._~/-]*)?", text) and _parts_of(text)):
        raise ValueError('must be an http or https address without a query, such as "https://api.deezer.com"')
    return text.rstrip("/")


def _a_service_url_or_none(text: str) -> str:
    return _a_service_url(text) if text else ""


def _voice_hosts(hosts: tuple[str, ...]) -> tuple[str, ...]:
    if not hosts:
        raise ValueError(
            'must list at least one host, such as "*.discord.media"; voice.enabled = false turns voice off'
        )
    return tuple(host_pattern(host) for host in hosts)


def _an_address_or_none(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text)) if text else ""
    except ValueError:
        raise ValueError('must be an address of this machine, such as "192.0.2.7"') from None


def _ports(text: str) -> str:
    match = re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", text)
    if text and not (match and 0 < int(match[1]) <= int(match[2]) <= 65535):
        raise ValueError('must be the first and the last port, such as "50000-50999"')
    return text


# TOML gives lists, and a frozen value needs tuples. So these fields convert, although all others are strict.
_Texts = Annotated[tuple[str, ...], Field(strict=False)]
_Patterns = Annotated[_Texts, AfterValidator(_compile_all)]
_HostNames = Annotated[_Texts, AfterValidator(_host_names)]
_HostPatterns = Annotated[_Texts, AfterValidator(_host_patterns)]
_Origins = Annotated[_Texts, AfterValidator(_origins)]
_IdPatterns = Annotated[_Texts, AfterValidator(_id_patterns)]
_Searches = Annotated[_Texts, AfterValidator(_searches)]
_ServiceUrl = Annotated[str, AfterValidator(_a_service_url)]
_ClusterName = Annotated[str, AfterValidator(_a_node_name)]
_VoiceHosts = Annotated[_Texts, AfterValidator(_voice_hosts)]
_Proxies = Annotated[_Texts, AfterValidator(_proxies)]
_ExtractorArgs = Annotated[dict[str, dict[str, tuple[str, ...]]], BeforeValidator(_extractor_args)]
_Schemes = Annotated[tuple[Literal["bearer", "basic"], ...], Field(strict=False)]
_OpenPaths = Annotated[_Texts, AfterValidator(_open_paths)]
_Files = Annotated[Literal["auto"] | bool | tuple[str, ...], BeforeValidator(_auto_or_bool_or_folders)]
_AutoOrBool = Annotated[Literal["auto"] | bool, BeforeValidator(_auto_or_bool)]
_Sandbox = Literal["auto", "required", "off"]
_Seconds = Annotated[float, Field(gt=0, le=3600)]


class _Section(BaseModel):
    # Errors must not show the values: one may be a password.
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


class ServerConfig(_Section):
    """Where the node listens, and which clients it accepts."""

    host: Annotated[str, AfterValidator(_a_host)] = Field(
        default="127.0.0.1",
        description='Address to listen on; "0.0.0.0" for every IPv4 address, "::" for every IPv6 address of the '
        "machine.",
    )
    port: int = Field(default=2333, ge=0, le=65535, description="Port to listen on; 0 lets the system choose one.")
    reuse_port: bool = Field(
        default=False,
        description="Whether several nodes of a cluster share this port on one machine. The system gives each "
        "connection to one of them. Each node also listens on the port of its cluster.address.",
    )
    password: Annotated[SecretStr, AfterValidator(_no_outer_blanks)] = Field(
        default=SecretStr(""), description="The Authorization header that clients send; empty accepts every client."
    )
    schemes: _Schemes = Field(
        default=(),
        description='Other schemes in which the password is accepted: "bearer" and "basic" (with any user name), for '
        "programs that cannot send the bare password.",
    )
    hosts: _HostNames = Field(
        default=(),
        description="Host names by which clients reach a node without password, such as the name of a proxy in front "
        "of the node. Addresses and localhost always work.",
    )
    allowed_origins: _Origins = Field(
        default=(),
        description='Origins whose pages may use the node from a browser, such as "https://radio.example". Pages of '
        "the node's own address always may.",
    )
    max_connections: int = Field(
        default=10_000,
        ge=1,
        description="Most connections at a time; never more than three quarters of the node's file descriptors.",
    )
    stranger_share: float = Field(
        default=0.25,
        gt=0,
        le=1,
        description="Share of max_connections for clients that have not yet sent a whole request with the right "
        "password. When the share is full, the client that has waited longest is disconnected.",
    )
    request_timeout_s: _Seconds = Field(
        default=15.0, description="How long a request, its head and its body, may take to arrive, in seconds."
    )
    keepalive_timeout_s: _Seconds = Field(
        default=75.0, description="How long a connection is kept for the next request, in seconds."
    )
    requests_per_second: float = Field(
        default=0.0,
        ge=0,
        le=1_000_000,
        description="Most requests per second from one IPv4 address, or one IPv6 network (/64); more are answered with "
        "429. /healthz and /readyz are not counted, so that a flood restarts no node. 0: no limit; use it behind a "
        "proxy, where all requests come from the proxy's address.",
    )
    max_load: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Protects existing players: new players are refused (429) while the node was late for this share "
        "of the last 10 s or more. 0 never refuses.",
    )

    open_paths: _OpenPaths = Field(
        default=(),
        description="Which of /metrics, /healthz and /readyz are answered without the password, for monitoring "
        "programs that cannot send one.",
    )

    @property
    def listens_on_loopback_only(self) -> bool:
        return is_loopback(self.host)


class PlayerConfig(_Section):
    """Limits of players. A request beyond a limit is answered with 429."""

    first_listener_wait_ms: int = Field(
        default=1000,
        ge=0,
        le=3_600_000,
        description="How long a new player waits for its first listener before it plays.",
    )
    expire_s: float = Field(
        default=0.0,
        ge=0,
        description="A player is deleted after so many seconds without a listener, an event client or a request; 0 "
        "keeps players for ever.",
    )
    max_players: int = Field(default=10_000, ge=1, description="How many players there may be at a time.")
    max_waiting_tracks: int = Field(default=10_000, ge=1, description="How many tracks may wait in one player's queue.")
    tags_ahead: int = Field(
        default=5,
        ge=0,
        le=100,
        description="How many of a player's waiting tracks get title and length before their turn, so that clients can "
        "show them; 0: none.",
    )
    max_waiting_bytes: int = Field(
        default=16_777_216,
        ge=4096,
        description="How many bytes the URIs and metadata of one player's waiting tracks may take together.",
    )
    max_listeners: int = Field(default=1_000, ge=1, description="How many listeners one player may have.")
    max_metadata_bytes: int = Field(
        default=65_536,
        ge=2,
        le=1_048_576,
        description="How many bytes of JSON the metadata of a player or a track may take; more is answered with 400.",
    )
    max_event_bytes: int = Field(
        default=1_048_576,
        ge=4096,
        description="How many bytes of events a player keeps for clients that reconnect; the oldest are dropped first. "
        "A client that is twice as far behind is disconnected.",
    )


class SourcesConfig(_Section):
    """What may be opened, and how long to wait for it."""

    allowed: _Patterns = Field(
        default=(),
        description="Regular expressions (RE2). If there are any, a URI is refused unless one of them matches.",
    )
    blocked: _Patterns = Field(
        default=(),
        description="Regular expressions (RE2). A URI is refused when one of them matches, even if it is in `allowed`.",
    )
    allowed_hosts: _HostPatterns = Field(
        default=(),
        description='Host names; ".radio.example" also means all names below it. If there are any, links must lead '
        "to one of them, or match `allowed`.",
    )
    files: _Files = Field(
        default="auto",
        description='Whether local files may be played: true, false, or a list of folders. "auto": yes if only '
        "programs of this machine can reach the node, but not for requests through a proxy.",
    )
    private_networks: _AutoOrBool = Field(
        default="auto",
        description='Whether links may lead into private networks and to this machine: true or false. "auto": yes if '
        "only programs of this machine can reach the node, but not for requests through a proxy.",
    )
    connect_timeout_s: _Seconds = Field(
        default=5.0, description="How long name lookup, connecting and TLS may take together, in seconds."
    )
    headers_timeout_s: _Seconds = Field(
        default=10.0,
        description="How long a server may take from the request to the headers of its answer, in seconds.",
    )
    stall_timeout_s: _Seconds = Field(
        default=10.0, description="How long a server may send nothing in the middle of an answer, in seconds."
    )
    start_timeout_s: _Seconds = Field(
        default=30.0,
        description="How long a track may take from its turn to its first sound, in seconds. After that the track "
        "fails, and the next one plays.",
    )
    user_agent: Annotated[str, AfterValidator(_a_header_value)] = Field(
        default=f"tonearm/{VERSION}", description="The User-Agent header of requests to sources."
    )


class LibraryConfig(_Section):
    """The folders in which clients browse and upload music on the node's machine."""

    folders: _Texts = Field(
        default=(),
        description="Folders that clients see. Files in them must be playable (sources.files). Empty: the folders of "
        "sources.files if it is a list, else the working folder.",
    )
    uploads: str = Field(
        default="",
        description="The folder for uploads, in a folder of the library. Empty: clients cannot upload.",
    )
    upload_max_bytes: int = Field(
        default=209_715_200, ge=1, description="How many bytes an uploaded file may have; more is answered with 413."
    )
    uploads_max_bytes: int = Field(
        default=10_737_418_240,
        ge=1,
        description="How many bytes all uploaded files may have together; more is answered with 429.",
    )


class SoundsConfig(_Section):
    """Sounds that clients send with `POST /v0/sounds`. The node keeps them in memory only."""

    max_bytes: int = Field(default=10_485_760, ge=4096, description="How many bytes one sound may have.")
    total_bytes: int = Field(
        default=67_108_864,
        ge=4096,
        description="How many bytes all sounds may take together; each counts for at least 4096. New sounds replace "
        "the oldest unused ones.",
    )
    keep_s: float = Field(default=600.0, gt=0, description="How long a sound is kept after its last use, in seconds.")


class ResolverConfig(_Section):
    """Finding the audio behind a page's address. Needs the extra `resolver` (yt-dlp and, for YouTube, its solver)."""

    enabled: bool = Field(
        default=False,
        description="Whether links to web pages play. If not, only files and direct links play.",
    )
    timeout_ms: int = Field(
        default=20_000, ge=1, le=3_600_000, description="How long it may take to resolve a page, in milliseconds."
    )
    sites: _Texts = Field(
        default=(),
        description='Names of yt-dlp extractors that may be used, such as "youtube" or "soundcloud". "all" or an empty '
        'list: every extractor except "generic", which looks for media in any page.',
    )
    default_search: Annotated[str, AfterValidator(_a_search)] = Field(
        default="ytsearch",
        description='The search for plain words, such as "ytsearch", "scsearch" or "dzsearch".',
    )
    javascript: bool = Field(
        default=True,
        description="Whether scripts of pages run, inside the sandbox. YouTube needs it. Needs yt-dlp-ejs and "
        "quickjs-ng, which come with the extra.",
    )
    sandbox: _Sandbox = Field(
        default="auto",
        description='What the kernel forbids the processes that resolve: "auto", as much as it can; "required", the '
        'same, and the node does not start without seccomp; "off", nothing.',
    )
    cookies_file: str = Field(
        default="",
        description="A cookies file in Netscape's format, as browser extensions write it. Each site gets its own "
        "cookies. The node reads the file again when it changes and never writes it. Empty: none.",
    )
    extractor_args: _ExtractorArgs = Field(
        default_factory=dict,
        repr=False,
        description="Arguments of yt-dlp's extractors, such as `youtube = "
        '{ player_client = ["tv"], po_token = ["web.gvs+…"] }`.',
    )
    proxies: _Proxies = Field(
        default=(),
        repr=False,
        description='Proxies for pages and their media, used in turn: "http://HOST:PORT" or '
        '"http://NAME:PASSWORD@HOST:PORT", or with https. A proxy that fails is not used for a minute. Empty: none.',
    )
    allow_spotify_title_search: bool = Field(
        default=True,
        description="Whether recordings for links of Spotify, Deezer and Apple Music are also searched by artist and "
        "title. If not, only by ISRC.",
    )


class MirrorConfig(_Section):
    """Links of Spotify, Deezer and Apple Music, played from a site with the same recording; needs the resolver."""

    enabled: bool = Field(default=True, description="Whether links of Spotify, Deezer and Apple Music are played.")
    search: _Searches = Field(
        default=("ytsearch",),
        description='Searches of yt-dlp in which recordings are looked for, in turn, such as "ytsearch" or "scsearch".',
    )
    country: Annotated[str, AfterValidator(_a_country)] = Field(
        default="US", description="Apple Music's store for links that name none, as two letters."
    )
    deezer_url: _ServiceUrl = Field(default="https://api.deezer.com", description="The address of Deezer's API.")
    itunes_url: _ServiceUrl = Field(
        default="https://itunes.apple.com", description="The address of Apple's search API."
    )
    spotify_api_url: _ServiceUrl = Field(
        default="https://api.spotify.com/v1", description="The address of Spotify's Web API, used with your keys."
    )
    spotify_token_url: _ServiceUrl = Field(
        default="https://accounts.spotify.com/api/token",
        description="The address where Spotify gives tokens for your keys.",
    )
    spotify_page_url: Annotated[str, AfterValidator(_a_service_url_or_none)] = Field(
        default="",
        description='"https://open.spotify.com": the node reads the public pages of links when the API is not used or '
        "refuses. Spotify's terms forbid that to programs; you decide. Empty: the node reads no page.",
    )


class SpotifyConfig(_Section):
    """Keys of your app at developer.spotify.com. A value may be the name of an environment variable."""

    client_id: str = Field(default="", description="The app's client id. Empty: Spotify's API is not used.")
    client_secret: SecretStr = Field(default=SecretStr(""), description="The app's client secret.")

    @model_validator(mode="after")
    def _are_both_there(self) -> Self:
        if bool(self.client_id) != bool(self.client_secret.get_secret_value()):
            raise ValueError("needs both spotify.client_id and spotify.client_secret, or neither")
        return self


class ClusterConfig(_Section):
    """Several nodes as one, on a NATS server with JetStream. Needs the extra `cluster` (nats-py)."""

    url: Annotated[str, AfterValidator(_engine_urls)] = Field(
        default="",
        description='The address of the engine, "nats://host:4222", or several separated by commas. Empty: no cluster.',
    )
    name: _ClusterName = Field(default="tonearm", description="The cluster's name, the same at all its nodes.")
    node: Annotated[str, AfterValidator(_a_node_name_or_none)] = Field(
        default="", description="This node's name in the cluster. Empty: the machine's name and the port."
    )
    address: Annotated[str, AfterValidator(_a_service_url_or_none)] = Field(
        default="",
        description='The address at which other nodes reach this node, "http://10.0.0.5:2333". Empty: server.host and '
        "server.port.",
    )
    lease_s: float = Field(
        default=6.0,
        ge=3,
        le=60,
        description="How long a node may be silent before other nodes take over its players, in seconds.",
    )
    user: str = Field(default="", description="The engine's user.")
    password_file: str = Field(default="", description="A file with the engine's password.")
    credentials_file: str = Field(default="", description="A NATS credentials file; needs nkeys.")
    ca_file: str = Field(
        default="", description="The certificate of the authority that signed the engine's certificate."
    )
    cert_file: str = Field(default="", description="This node's certificate for the engine.")
    key_file: str = Field(default="", description="The key of this node's certificate.")

    @property
    def address_port(self) -> int | None:
        """The port that `address` names. Raises `ValueError` for a number that is no port."""
        return urlsplit(self.address).port


class VoiceConfig(_Section):
    """Discord voice channels in which players speak. Needs the extra `voice`."""

    enabled: _AutoOrBool = Field(
        default="auto",
        description='"auto": yes if the libraries are there; true: the node does not start without them; false: no.',
    )
    processes: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="How many processes send and encrypt; 0: one for each 300 connections, at most one for each core.",
    )
    endpoints: _VoiceHosts = Field(
        default=("*.discord.media",),
        description='Voice servers that the node may connect to: hosts, and "*." with a name for all hosts below it.',
    )
    private_networks: bool = Field(
        default=False,
        description="Whether voice servers may be in private networks or on this machine, for a test without Discord.",
    )
    max_connections: int = Field(
        default=1000, ge=1, le=100_000, description="How many players may speak in channels at a time."
    )
    connect_timeout_s: _Seconds = Field(
        default=10.0, description="How long a connection to a voice server may take until it is ready, in seconds."
    )
    udp_bind: Annotated[str, AfterValidator(_an_address_or_none)] = Field(
        default="", description="The local address from which packets are sent; empty: the system chooses."
    )
    udp_ports: Annotated[str, AfterValidator(_ports)] = Field(
        default="",
        description='The local ports for voice packets, "50000-50999", for a firewall that needs them; empty: any.',
    )

    @property
    def udp_port_range(self) -> range | None:
        first, _, last = self.udp_ports.partition("-")
        return range(int(first), int(last) + 1) if self.udp_ports else None


class DecoderConfig(_Section):
    """The processes that decode."""

    processes: int = Field(
        default=0,
        ge=0,
        le=1024,
        description="How many processes decode for players; 0 is one for each core that the node may use. One more "
        "is always ready to replace a process that dies.",
    )
    memory_limit_mb: int = Field(
        default=1280, ge=320, description="How much memory (address space) each of these processes may take, in MiB."
    )
    sandbox: _Sandbox = Field(
        default="auto",
        description='What the kernel forbids the processes that decode: "auto", as much as it can; "required", the '
        'same, and the node does not start without seccomp; "off", nothing.',
    )


class OpusConfig(_Section):
    """How audio is encoded for Opus listeners: `/ws?format=opus` and `/stream.ogg`."""

    bitrate_bps: int = Field(
        default=128_000,
        ge=6_000,
        le=510_000,
        description="Bits per second, unless a listener asks for another bitrate.",
    )
    complexity: int = Field(
        default=5, ge=0, le=10, description="0 to 10: each step takes more CPU for a little more quality."
    )
    fec: bool = Field(
        default=False,
        description="Whether speech at low bitrates carries forward error correction, which repairs a lost packet.",
    )
    signal: Literal["auto", "music", "voice"] = Field(
        default="auto", description='The kind of sound that the encoder expects: "auto", "music" or "voice".'
    )
    variable: bool = Field(default=True, description="Whether the size of packets varies with the sound (VBR).")


class StreamConfig(_Section):
    """The endless streams over HTTP: `/stream.ogg`, `/stream.mp3`, `/stream.wav`."""

    burst_ms: int = Field(
        default=2000,
        ge=0,
        le=10_000,
        description="How much sound an Ogg or MP3 listener gets at once when it connects, in ms. Browsers then start "
        "at once, but hear everything that much later. Chromium never stalls with 37 kB or more (2400 at 128 kbit/s).",
    )
    mp3_bitrate_bps: Literal[
        32_000, 40_000, 48_000, 56_000, 64_000, 80_000, 96_000, 112_000, 128_000, 160_000, 192_000, 224_000, 256_000,
        320_000,
    ] = Field(default=128_000, description="Bits per second of MP3, unless a listener asks otherwise.")  # fmt: skip
    name: str = Field(
        default="",
        description='The name of streams (icy-name); empty: "tonearm" and the player\'s id. An object `station` in a '
        "player's metadata overrides name, genre and url.",
    )
    genre: str = Field(default="", description="The genre of streams (icy-genre).")
    url: str = Field(default="", description="The web page of streams (icy-url).")


class PublicConfig(_Section):
    """A second address without password, at which anybody may listen to some players and do nothing else."""

    enabled: bool = Field(default=False, description="Whether the public address is open.")
    host: Annotated[str, AfterValidator(_a_host)] = Field(
        default="127.0.0.1",
        description='Address to listen on; "0.0.0.0" for every IPv4 address, "::" for every IPv6 address of the '
        "machine.",
    )
    port: int = Field(
        default=2335,
        ge=0,
        le=65535,
        description="Port to listen on, not the same as server.port; 0 lets the system choose one.",
    )
    players: _IdPatterns = Field(
        default=(),
        description='Ids of the public players, such as "radio" or "club-*": * stands for any characters, ? for one.',
    )
    max_connections: int = Field(
        default=500,
        ge=1,
        description="Most connections at a time; never more than a quarter of the node's file descriptors.",
    )
    max_per_address: int = Field(
        default=50,
        ge=0,
        description="Most connections from one IPv4 address, or one IPv6 network (/64); 0: no limit; use it behind a "
        "proxy, where all connections come from the proxy's address.",
    )

    @model_validator(mode="after")
    def _names_players(self) -> Self:
        if self.enabled and not self.players:
            raise ValueError('is enabled and lists no players; set public.players = ["radio"], or to ["*"] for all')
        return self


class DashboardConfig(_Section):
    """The web page that shows and controls the node."""

    login: bool = Field(
        default=False,
        description="Whether a node with a password serves the dashboard to browsers that log in with the password. If "
        "not, use the command `tonearm dashboard`.",
    )


class StateConfig(_Section):
    """Players that survive a restart."""

    path: str = Field(
        default="",
        description="The file that keeps players, their queues and positions for the next start, even if the node was "
        "killed; one file for each node. Empty: players are not kept.",
    )
    resume: Literal["playing", "paused", "never"] = Field(
        default="playing",
        description='What restored players do: "playing", they play on; "paused", they are paused; "never", they stand '
        "still until play starts their track again.",
    )


class LoggingConfig(_Section):
    """What the node logs on stderr."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description='The lowest level that is logged: "debug", "info", "warning" or "error".'
    )
    format: Literal["text", "json"] = Field(
        default="text", description='"text" for people, "json" for programs: an object in each line.'
    )


_SYSTEM_FOLDERS: Final = ("/proc", "/sys", "/dev")


def _library_folders(library: LibraryConfig, sources: SourcesConfig) -> tuple[str, ...]:
    return library.folders or (sources.files if isinstance(sources.files, tuple) else (os.getcwd(),))


def _is_in_one(path: str, folders: Iterable[str]) -> bool:
    """Whether `path` is one of `folders` or below one, wherever links lead."""
    real_path = os.path.realpath(path)
    roots = (os.path.realpath(folder) for folder in folders)
    return any(real_path == root or real_path.startswith(root.rstrip("/") + "/") for root in roots)


class Config(_Section):
    """The whole configuration. Every key has a default."""

    server: ServerConfig = ServerConfig()
    player: PlayerConfig = PlayerConfig()
    sources: SourcesConfig = SourcesConfig()
    library: LibraryConfig = LibraryConfig()
    sounds: SoundsConfig = SoundsConfig()
    resolver: ResolverConfig = ResolverConfig()
    cluster: ClusterConfig = Field(default=ClusterConfig(), validate_default=True)
    voice: VoiceConfig = VoiceConfig()
    mirror: MirrorConfig = MirrorConfig()
    spotify: SpotifyConfig = SpotifyConfig()
    decoder: DecoderConfig = DecoderConfig()
    opus: OpusConfig = OpusConfig()
    stream: StreamConfig = StreamConfig()
    public: PublicConfig = PublicConfig()
    dashboard: DashboardConfig = DashboardConfig()
    state: StateConfig = StateConfig()
    logging: LoggingConfig = LoggingConfig()

    @field_validator("public")
    @classmethod
    def _has_its_own_port(cls, public: PublicConfig, info: ValidationInfo) -> PublicConfig:
        server = info.data.get("server")
        if public.enabled and server is not None and public.port and public.port == server.port:
            raise ValueError(f"has the same port as the server, {public.port}; set public.port to another one")
        return public

    @field_validator("cluster")
    @classmethod
    def _can_share_a_port(cls, cluster: ClusterConfig, info: ValidationInfo) -> ClusterConfig:
        server = info.data.get("server")
        if server is None or not server.reuse_port:
            return cluster
        if not cluster.url:
            raise ValueError(
                "url is missing, and server.reuse_port is true: nodes that share a port must be one cluster, since a "
                "client reaches any of them; set cluster.url, or server.reuse_port to false"
            )
        if not cluster.address.startswith("http:") or cluster.address_port in (None, server.port):
            raise ValueError(
                "address is to be http with a port of this node's own where server.reuse_port is true, such as "
                f'"http://127.0.0.1:{server.port + 1}": at {server.port} others answer, too'
            )
        return cluster

    @field_validator("library")
    @classmethod
    def _can_be_played(cls, library: LibraryConfig, info: ValidationInfo) -> LibraryConfig:
        server, sources = info.data.get("server"), info.data.get("sources")
        if server is None or sources is None:  # the sections are invalid, and reported already
            return library
        playable = sources.files if isinstance(sources.files, tuple) else ("/",)
        is_allowed = auto_allows(sources.files, listens_on_loopback_only=server.listens_on_loopback_only)
        for folder in library.folders:
            if not (folder and is_allowed and _is_in_one(folder, playable)) or _is_in_one(folder, _SYSTEM_FOLDERS):
                raise ValueError(
                    f'no file can be played from "{folder}" of library.folders; add the folder to sources.files, too, '
                    "or name another folder here"
                )
        folders = _library_folders(library, sources)
        if library.uploads and not (is_allowed and _is_in_one(library.uploads, folders)):
            raise ValueError(
                f'"{library.uploads}" of library.uploads is in no folder of the library ({", ".join(folders)}); choose '
                "a folder in one of these, or set library.folders"
            )
        return library

    @field_validator("state")
    @classmethod
    def _is_kept_once(cls, state: StateConfig, info: ValidationInfo) -> StateConfig:
        cluster = info.data.get("cluster")
        if state.path and cluster is not None and cluster.url:
            raise ValueError(
                "path and cluster.url exclude each other: in a cluster the engine keeps the players; set one of them"
            )
        return state

    @property
    def own_port(self) -> int | None:
        """The port on which only this node listens, beside a shared `server.port`; None when the port is not shared."""
        return self.cluster.address_port if self.server.reuse_port else None

    @property
    def library_folders(self) -> tuple[str, ...]:
        """The folders that the library shows."""
        return _library_folders(self.library, self.sources)

    @property
    def allows_files(self) -> bool:
        return auto_allows(self.sources.files, listens_on_loopback_only=self.server.listens_on_loopback_only)

    @property
    def allows_private_networks(self) -> bool:
        return auto_allows(self.sources.private_networks, listens_on_loopback_only=self.server.listens_on_loopback_only)


# The sections by name, in the order of the file.
SECTIONS: Final[Mapping[str, type[BaseModel]]] = MappingProxyType(
    {name: type(field.default) for name, field in Config.model_fields.items()}
)

"""The URIs of sources: links, files, sounds, plain paths and searches, parsed once into one comparable form.

All spellings of a host that resolvers and browsers accept become the same text: letters of other widths or cases, a
trailing dot, `0x7f.1` for 127.0.0.1. So a different spelling of the host cannot evade a pattern for it. Neither `idna`
nor `yarl` normalises like this: both leave `0x7f.1` as it is, `idna` refuses `my_host` and removes soft hyphens
silently, and `yarl` accepts symbols that are not letters.
"""

import ipaddress
import posixpath
import re
import unicodedata
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Literal
from urllib.parse import quote, unquote, unquote_to_bytes

from tonearm.core.errors import BadRequest
from tonearm.core.printable import one_line, readable
from tonearm.core.track_info import TrackInfo


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """`host` as an IP address, IPv6 with or without brackets; None for a name."""
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach a server that listens on `host`."""
    address = address_of(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def in_url(host: str) -> str:
    """`host` as it stands in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def node_url(host: str, port: int) -> str:
    """The URL by which a client on this machine reaches a node that listens on `host`."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://{in_url(reachable)}:{port}"


MAX_URI_CHARACTERS: Final = 4096
# A relative path of so many characters in the longest folder (4096 bytes), and three characters for each byte.
MAX_ADDRESS_CHARACTERS: Final = 65_536

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_AUTHORITY_END: Final = re.compile(r"[/?#]")
_PERCENT_PAIR: Final = re.compile(r"%([0-9A-Fa-f]{2})|%", re.ASCII)
_ENDING: Final = re.compile(r"\.(?=[0-9]*[A-Za-z])[A-Za-z0-9]{1,5}$", re.ASCII)
CUE_ENDING: Final = ".cue"
# Endings of lists of tracks. `.m3u8` is not among them, because it usually names one stream (HLS).
_TRACK_LIST_ENDINGS: Final = (".m3u", ".pls", ".xspf", ".asx", ".wax", ".wvx", ".rss", ".xml", ".atom", CUE_ENDING)
HLS_ENDING: Final = ".m3u8"
_PLAYLIST_ENDINGS: Final = (*_TRACK_LIST_ENDINGS, HLS_ENDING)
# W3C Media Fragments URI 1.0, 4.2.1, in seconds: `#t=start`, `#t=start,end`, `#t=,end`.
_FRAGMENT: Final = re.compile(
    r"#t=(?:npt:)?([0-9]{1,9}(?:\.[0-9]{0,9})?)?(?:,([0-9]{1,9}(?:\.[0-9]{0,9})?))?$", re.ASCII
)
_ANY_FRAGMENT: Final = re.compile(r"#[a-z]{1,9}=[^/#]*$", re.ASCII)
# Where a recording starts, as links of these sites say it: `?t=90`, `&t=1m30s`, `?start=90`, `#t=1:30`.
_SITES_WITH_STARTS: Final = (
    *(".youtube.com", ".youtu.be", ".youtube-nocookie.com", ".twitch.tv", ".vimeo.com", ".soundcloud.com"),
    *(".dailymotion.com", ".bilibili.com"),
)
_START: Final = re.compile(r"[?&#](?:t|start)=([0-9hms:]{1,9})(?=[&#]|$)", re.ASCII)
_LIST: Final = re.compile(r"/playlist$|.*/sets/", re.ASCII)  # a list has no start
_TIME: Final = re.compile(r"(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s?)?|(?:([0-9]+):)?([0-9]+):([0-9]+)", re.ASCII)
# `#audio=2` or `#audio=de`, alone or beside another fragment.
_AUDIO: Final = re.compile(r"#(?:([^#]*)&)?audio=([A-Za-z0-9-]{1,35})(?:&([^#]*))?$", re.ASCII)
# The first words of a search, as Lavalink's clients and yt-dlp write them: `ytsearch:`, `scsearch:`, …
_SEARCH: Final = re.compile(r"([a-z][a-z0-9]{0,30}search):(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
# The URI of a sound that a client sent.
_SOUND: Final = re.compile(r"sound:([0-9a-f]{1,64})", re.ASCII | re.IGNORECASE)
# A host as people write it: `www.…`, a name with a path, a name in one of the most usual domains, or a name with a
# port. `4:44` is a title or a time. All parts are as short as in names of hosts, because longer ones would take hours
# in some texts.
_LABELS: Final = r"(?:[a-z0-9-]{1,63}\.){0,126}"
_HOST_WITHOUT_SCHEME: Final = re.compile(
    rf"{_LABELS}(?:www\.[a-z0-9.-]{{1,253}}|[a-z0-9-]{{1,63}}\.(?:[a-z]{{2,24}}(?=[/?])|(?:com|net|org|fm|tv)\b))"
    r"(?::[0-9]{1,5})?(?:[/?].*)?$"
    rf"|(?![0-9]+:){_LABELS}[a-z0-9-]{{1,63}}:(?P<port>[0-9]{{1,5}})(?:[/?].*)?$",
    re.ASCII | re.IGNORECASE,
)
_SEVERAL_LINKS: Final = re.compile(r"https?:.*\shttps?://", re.ASCII | re.IGNORECASE | re.DOTALL)
_SHOWN_CHARACTERS: Final = 200
# The scheme of a link, its userinfo, and what follows up to the query or the fragment.
_LINK: Final = re.compile(r"((?:[a-z][a-z0-9+.-]*:)?//|https?:|)([^/?#@]*@)?([^?#]*)", re.ASCII | re.IGNORECASE)
# The fragment by which a page with several recordings names one of them, counted from 1.
_ITEM: Final = re.compile(r"[#&]item=([1-9][0-9]{0,2})$", re.ASCII)
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_MAX_PORT: Final = 65535
# RFC 3986: characters that are allowed in a path, a query or a fragment; `%` because pairs were corrected before.
_SAFE_IN_PATH: Final = "%/:@!$&'()*+,;=~"
_SAFE_IN_QUERY: Final = _SAFE_IN_PATH + "?"
_NOT_ALLOWED: Final = re.compile(r"(?:%(?![0-9A-Fa-f]{2}))+|[^A-Za-z0-9._~:@!$&'()*+,;=/?%-]+", re.ASCII)
_HERE: Final = frozenset({".", "%2e", "%2E"})
_UP: Final = frozenset(first + second for first in _HERE for second in _HERE)
_DOTS: Final = _HERE | _UP
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# Control characters, halves of surrogate pairs, line and paragraph separators.
_REFUSED_CATEGORIES: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
# A byte of a file's name that is not UTF-8, in Python's form, which `file:` URIs keep as well.
_BYTE: Final = re.compile("[\udc80-\udcff]")
_MAX_HOST_CHARACTERS: Final = 253
_MAX_LABEL_CHARACTERS: Final = 63
_ASCII_LABEL: Final = re.compile(r"[a-z0-9_-]+", re.ASCII)
_IPV4_NUMBER: Final = re.compile(r"0x[0-9a-f]*|[0-9]+", re.ASCII)
_IDEOGRAPHIC_FULL_STOPS: Final = str.maketrans({"\u3002": ".", "\uff0e": ".", "\uff61": "."})
_DEVIATIONS: Final = "ßς"  # letters of their own in domain names today (UTS 46, non-transitional)


@dataclass(frozen=True, slots=True)
class SourceUri:
    """A URI of valid form, and whether the node's policy allows it.

    `given` is the text that was parsed. `normalised` is the comparable form, which the policy checks. `opened` is
    fetched: for `http`, path and query stay as written, because a signed link is valid in no other form. Only dot
    segments and characters that a URI may not contain are changed. `host` (None for a file) is in the form of
    `normalise_host`; `port` is the port to connect to. `path` is percent-encoded for `http`. For `file` it is a plain
    path without `.` and `..`, and with surrogate escapes for bytes that are not UTF-8, as in `os`.

    Only `SourcePolicy.admit` sets `is_admitted`; nothing is dialled or opened without it. `came_through_proxy`: the URI
    was requested through a proxy. The stricter rules then also apply to every URI that it leads to. `start_ms` and
    `end_ms` are the part that a fragment `#t=start,end` names (None: to the end). `audio` is the audio track that a
    fragment `#audio=` names, by number or language (empty: none). Both fragments are in `given` only.

    A search has words instead of an address; its results are parsed and checked separately. A sound has the id of
    audio that a client sent.
    """

    kind: Literal["http", "file", "search", "sound"]
    given: str
    normalised: str
    path: str
    host: str | None = None
    port: int | None = None
    is_admitted: bool = field(default=False, compare=False)
    came_through_proxy: bool = field(default=False, compare=False)
    start_ms: int = field(default=0, compare=False)
    end_ms: int | None = field(default=None, compare=False)
    # For `http`, the URI that is fetched, if it differs from the normalised form.
    written: str | None = field(default=None, compare=False)
    audio: str = ""

    @property
    def opened(self) -> str:
        """The URI that is fetched, or the path of a file if that is valid Unicode."""
        return self.path if self.kind == "file" and _BYTE.search(self.path) is None else self.written or self.normalised

    @property
    def without_query(self) -> str:
        """The normalised URI without query and fragment."""
        return re.split(r"[?#]", self.normalised, maxsplit=1)[0] if self.kind == "http" else self.normalised

    @property
    def is_https(self) -> bool:
        return self.normalised.startswith("https:")

    @property
    def is_here(self) -> bool:
        """Whether the source is on this node (a file or a sound), so that nothing is connected or resolved."""
        return self.kind in ("file", "sound")

    @property
    def names_track_list(self) -> bool:
        """Whether the path has the ending of a list of tracks. `.m3u8` does not count, because it is usually one
        stream."""
        return self.kind != "search" and self.path.lower().endswith(_TRACK_LIST_ENDINGS)

    @property
    def may_name_folder(self) -> bool:
        """Whether this is a path whose last part has no file ending."""
        return self.kind == "file" and _ENDING.search(self.path.rpartition("/")[2]) is None

    @property
    def search_key(self) -> str:
        """The site of a search, such as `ytsearch`."""
        return self.normalised.partition(":")[0]

    @property
    def page(self) -> tuple[str, int | None]:
        """The URI of a page, and the number of the requested recording on it, from 1; None: all of them."""
        found = _ITEM.search(self.opened)
        return (self.opened, None) if found is None else (self.opened[: found.start()], int(found[1]))

    def absolute(self, working_folder: str) -> "SourceUri":
        """A file with its path made absolute by `working_folder`; any other URI unchanged."""
        if self.kind != "file" or self.path.startswith("/"):
            return self
        return self.at(_normalise_file_path(posixpath.join(working_folder, self.path)))

    def at(self, path: str) -> "SourceUri":
        """The same file at another path, which the policy has to judge."""
        return replace(self, path=path, normalised=_file_uri(path), is_admitted=False)


def parse_source_uri(text: str, *, from_client: bool = False, is_address: bool = False) -> SourceUri:
    """Parses a URI or a path from a client, a server or a playlist. Raises BadRequest, whose message says why it cannot
    be played.

    `from_client` is for texts from clients: nothing else may lead to a search, or to a sound that a client sent.
    `is_address`: the text is a file's `normalised` form, or one that a record gives as such. It may be longer, because
    of its folder and its percent-encoding.
    """
    most = MAX_ADDRESS_CHARACTERS if is_address and text.startswith("file:") else MAX_URI_CHARACTERS
    if len(text) > most:
        raise BadRequest(f"A URI has at most {most} characters; this one has {len(text)}.")
    bare = text.strip()
    if _SEVERAL_LINKS.match(bare):
        raise BadRequest("The text has several links; give one at a time.")
    if _BYTE.search(text):
        raise BadRequest(
            "The URI contains bytes that are not UTF-8; write the file as a file:// URI with each such byte as %XX."
        )
    if any(unicodedata.category(character) in _REFUSED_CATEGORIES for character in text):
        raise BadRequest("The URI contains control characters; write them percent-encoded or leave them out.")
    if not bare:
        raise BadRequest("The URI is empty; give an http or https URI, or the path of a file.")
    found = _SEARCH.fullmatch(bare) if from_client else None
    if found is not None:
        return search_uri(found[1].lower(), found[2], given=text)
    of_all, audio = _without_audio(bare)
    whole, start_ms, end_ms = _without_media_fragment(of_all)
    if from_client and (sound := _SOUND.fullmatch(whole)):
        sound_id = sound[1].lower()
        return SourceUri("sound", text, f"sound:{sound_id}", sound_id, start_ms=start_ms, end_ms=end_ms, audio=audio)
    uri = _parse(text, text if whole == bare else whole)
    if not start_ms and end_ms is None:
        start_ms = _start_on_page_ms(uri)
    if whole == bare and not start_ms:
        return uri
    return replace(uri, start_ms=start_ms, end_ms=end_ms, audio=audio)


def client_uri(text: str, came_through_proxy: bool) -> SourceUri:
    """The URI that a client wrote. `came_through_proxy` is kept in it, for the policy. Raises `BadRequest`."""
    return replace(parse_source_uri(text, from_client=True), came_through_proxy=came_through_proxy)


def search_uri(key: str, words: str, *, given: str | None = None) -> SourceUri:
    """The search for `words` at the site with this key. Raises BadRequest."""
    plain = " ".join(words.split())
    if not plain:
        raise BadRequest("The search has no words; write words after the colon.")
    text = f"{key}:{plain}"
    return SourceUri("search", text if given is None else given, text, plain)


def item_of_page(page: SourceUri, number: int) -> str:
    """The URI of a page's recording with this number, from 1; see `SourceUri.page`."""
    return f"{page.opened}{'&' if '#' in page.opened else '#'}item={number}"


def joined_uri(base: SourceUri, reference: str) -> str:
    """The absolute form of `reference`, relative to the http URI `base` (RFC 3986, 5.2.2). Only the dot segments of a
    relative path change."""
    if _SCHEME.match(reference):
        return reference
    target = base.opened.partition("#")[0]
    scheme, _, rest = target.partition("//")
    authority, slash, path = rest.partition("?")[0].partition("/")
    if reference.startswith("//"):
        return scheme + reference
    if not reference or reference.startswith("#"):
        return target + reference
    path = slash + path
    if reference.startswith("/"):
        path = ""
    elif not reference.startswith("?"):
        relative = re.split(r"[?#]", reference, maxsplit=1)[0]
        path, reference = _without_dot_segments(path[: path.rindex("/") + 1] + relative), reference[len(relative) :]
    return f"{scheme}//{authority}{path}{reference}"


def media_fragment(start_ms: int, end_ms: int | None) -> str:
    """The fragment that names this part of a file; "" for all of it."""
    if not start_ms and end_ms is None:
        return ""
    end = "" if end_ms is None else f",{end_ms / 1000:.3f}"
    return f"#t={start_ms / 1000:.3f}{end}"


def _without_audio(text: str) -> tuple[str, str]:
    """The text without a fragment that names one of several audio tracks, and the name of that track."""
    found = _AUDIO.search(text)
    if found is None or not found.start():
        return text, ""
    rest = "&".join(filter(None, (found[1], found[3])))
    return text[: found.start()] + (f"#{rest}" if rest else ""), found[2]


def _without_media_fragment(text: str) -> tuple[str, int, int | None]:
    """The text before a fragment that names a part, where the part starts and where it ends, both in ms.

    A fragment without a time, or with an end that is not after the start, is ignored, as W3C requires.
    """
    found = _FRAGMENT.search(text)
    if found is None or (found[1] is None and found[2] is None) or not found.start():
        return text, 0, None
    start_ms = round(float(found[1] or 0) * 1000)
    end_ms = None if found[2] is None else round(float(found[2]) * 1000)
    if end_ms is not None and end_ms <= start_ms:
        return text, 0, None
    return text[: found.start()], start_ms, end_ms


def _start_on_page_ms(uri: SourceUri) -> int:
    """Where the recording starts that a link of one of the usual sites names; 0 for any other URI."""
    if not f".{uri.host}".endswith(_SITES_WITH_STARTS) or _LIST.match(uri.path):
        return 0
    found = _START.search(uri.opened.replace("%3A", ":"))
    time = None if found is None else _TIME.fullmatch(found[1])
    if time is None:
        return 0
    return 1000 * sum(int(number) * unit_s for number, unit_s in zip(time.groups("0"), 2 * (3600, 60, 1), strict=True))


def _parse(given: str, text: str) -> SourceUri:
    """Parses `text`, which is `given` without its media fragment."""
    bare = text.strip()
    found = _SCHEME.match(bare)
    if found is None:
        return _file(given, text)
    scheme, rest = found[1].lower(), bare[found.end() :]
    if scheme in DEFAULT_PORTS:
        return _http(given, scheme, rest)
    if scheme == "file":
        return _file(given, _path_of_file_uri(rest))
    if scheme == "spotify" and ":" in rest:  # the form that Spotify's apps give: spotify:track:<id>
        return _http(given, "https", f"//open.spotify.com/{rest.replace(':', '/')}")
    raise BadRequest(
        f"The scheme {found[1]!r} cannot be played; use http, https, file or a path "
        f"(a path whose first part holds a colon starts with ./).{hint_for_link(bare)}"
    )


def hint_for_link(text: str) -> str:
    """A sentence with a leading space, if the text without a scheme is probably a link; otherwise ""."""
    link = link_without_scheme(text)
    return f" If it is meant as a link, write {link[:_SHOWN_CHARACTERS]}." if link else ""


def link_without_scheme(text: str) -> str:
    """The link that a text without a scheme probably means; empty for other texts."""
    found = _HOST_WITHOUT_SCHEME.match(text.strip())
    if found is None:
        return ""
    scheme = "http" if found["port"] else "https"
    rest = "%20".join(text.split())  # so that a log recognises its end and removes the query
    return f"{scheme}://{rest}"


def uri_for_logs(text: str) -> str:
    """A URI, a path or a search in one line. Userinfo, query and fragment of a link are removed, even if the link
    contains blanks, because they may contain passwords and tokens. In paths and searches ? and # are ordinary
    characters, unless the text looks like a link without its scheme."""
    line = one_line(text)
    found = _LINK.match(line)
    if found is None or not (found[1] or _HOST_WITHOUT_SCHEME.match(line)):
        return line
    return f"{found[1]}{found[3]}".rstrip()


def title_from_uri(uri: SourceUri) -> str:
    """The file name without its ending, percent-decoded; the URI as given when it names no file; a search's words."""
    if uri.kind == "search":
        return uri.path
    if uri.kind == "sound":
        return "Sound"  # the id is a secret of clients that may play the sound
    name = uri.path.rpartition("/")[2]
    if uri.kind == "http":
        name = unquote(name, errors="surrogateescape")
    name = readable(name)
    name = "".join(character for character in name if unicodedata.category(character) not in _REFUSED_CATEGORIES)
    title = (_ENDING.sub("", name) or name).strip()
    return title or uri.given


def title_from_text(text: str) -> str:
    """`title_from_uri` of a text; the text itself if it is not a URI."""
    try:
        return title_from_uri(parse_source_uri(text))
    except BadRequest:
        return text


def has_playlist_ending(name: str) -> bool:
    """Whether a name or path has the ending of a playlist, whether of tracks or of a stream's segments."""
    return name.lower().endswith(_PLAYLIST_ENDINGS)


def initial_track_info(uri: SourceUri) -> TrackInfo:
    """The facts about a source that its URI gives, before it is opened."""
    # A search leads to a page, and the page leads to a link.
    source_name = {"file": "file", "sound": "direct"}.get(uri.kind, "http")
    return TrackInfo(identifier=uri.given, uri=uri.opened, title=title_from_uri(uri), source_name=source_name)


def direct_track_info(text: str) -> TrackInfo:
    """The facts in a plain absolute URI or path, the older form of an encoded track. Raises BadRequest."""
    uri = parse_source_uri(text)
    if not posixpath.isabs(uri.path):
        raise BadRequest("The path is not absolute; start it with a slash.")
    return replace(initial_track_info(uri), uri=text, source_name="direct")


def _http(given: str, scheme: str, rest: str) -> SourceUri:
    if not rest.startswith("//"):
        raise BadRequest(f"The URI has no host; write {scheme}://host/path.")
    rest = rest[2:]
    end_found = _AUTHORITY_END.search(rest)
    end = end_found.start() if end_found else len(rest)
    host, port = _host_and_port(rest[:end], scheme)
    target, has_fragment, fragment = rest[end:].partition("#")
    path, has_query, query = target.partition("?")
    origin = f"{scheme}://{in_url(host)}"
    if port != DEFAULT_PORTS[scheme]:
        origin += f":{port}"
    normal_path = _without_dot_segments(_percent_encoded(path, _SAFE_IN_PATH))
    normal_query, normal_fragment = _percent_encoded(query, _SAFE_IN_QUERY), _percent_encoded(fragment, _SAFE_IN_QUERY)
    normalised = f"{origin}{normal_path}{has_query}{normal_query}{has_fragment}{normal_fragment}"
    written = None
    if "%" in rest:  # else the two forms are the same
        path = _without_dot_segments(_allowed(path))
        written = f"{origin}{path}{has_query}{_allowed(query)}{has_fragment}{_allowed(fragment)}"
    return SourceUri(
        "http", given, normalised, normal_path, host, port, written=None if written == normalised else written
    )


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    if "@" in authority:
        raise BadRequest("The URI contains a user name or password before its host; leave them out.")
    host, has_port, port_text = authority, "", ""
    if not authority.endswith("]"):
        host, has_port, port_text = authority.rpartition(":") if ":" in authority else (authority, "", "")
    if not host.strip("."):
        raise BadRequest(f"The URI has no host; write {scheme}://host/path.")
    port = DEFAULT_PORTS[scheme]
    if has_port and port_text:
        is_number = port_text.isascii() and port_text.isdigit() and len(port_text) <= len(str(_MAX_PORT))
        port = int(port_text) if is_number else 0
        if not 1 <= port <= _MAX_PORT:
            raise BadRequest(f"The URI's port {port_text!r} is not a number from 1 to {_MAX_PORT}.")
    return normalise_host(host), port


def _percent_encoded(text: str, safe: str) -> str:
    """`text` normalised by RFC 3986, 6.2.2: percent pairs in upper case, and only for characters that need a pair."""

    def put_right(pair: re.Match[str]) -> str:
        if pair[1] is None:
            return "%25"
        character = chr(int(pair[1], 16))
        return character if character in _UNRESERVED else f"%{pair[1].upper()}"

    return quote(_PERCENT_PAIR.sub(put_right, text), safe=safe)


def _allowed(text: str) -> str:
    """A path, query or fragment as written, with a pair for each byte that RFC 3986 does not allow there."""
    return _NOT_ALLOWED.sub(lambda found: quote(found[0], safe=""), text)


def _without_dot_segments(path: str) -> str:
    """RFC 3986, 5.2.4, for a path after an authority, which is always absolute. Dots may be percent-encoded."""
    kept: list[str] = []
    segments = path.removeprefix("/").split("/")
    for segment in segments:
        if segment in _UP:
            del kept[-1:]
        elif segment not in _HERE:
            kept.append(segment)
    if segments[-1] in _DOTS:
        kept.append("")
    return "/" + "/".join(kept)


def _path_of_file_uri(rest: str) -> str:
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            raise BadRequest(f"The file URI names the host {host!r}; only files of this machine can be opened.")
        rest = slash + path
    if not rest.startswith("/"):
        raise BadRequest("A file URI needs an absolute path; write file:///folder/name.")
    path = unquote_to_bytes(rest).decode("utf-8", "surrogateescape")
    if any(unicodedata.category(character) in _REFUSED_CATEGORIES for character in _BYTE.sub("", path)):
        raise BadRequest("The file URI contains percent-encoded control characters; leave them out.")
    return path


def _file(given: str, raw_path: str) -> SourceUri:
    path = _normalise_file_path(raw_path)
    return SourceUri("file", given, _file_uri(path), path)


def _normalise_file_path(path: str) -> str:
    normal = posixpath.normpath(path)
    return "/" + normal.lstrip("/") if normal.startswith("/") else normal  # normpath keeps two slashes at the start


def _file_uri(path: str) -> str:
    prefix = "file://" if path.startswith("/") else "file:"
    return prefix + quote(path, safe=_SAFE_IN_PATH.replace("%", ""), errors="surrogateescape")


def text_of_file(path: str) -> str:
    """The text that `parse_source_uri` reads as the file at this absolute path, whatever its name: the path itself if
    possible."""
    is_plain = _BYTE.search(path) is None and not split_fragment(path)[1]
    return path if is_plain else _file_uri(path)


def is_playable_name(name: str) -> bool:
    """Whether a URI can name a file of this name, which must not contain control characters."""
    if name.isprintable():  # nearly always, and much faster
        return True
    return not any(unicodedata.category(character) in _REFUSED_CATEGORIES for character in _BYTE.sub("", name))


def split_fragment(path: str) -> tuple[str, str]:
    """Splits a path from the fragment after it, which may name a part of the file."""
    found = _ANY_FRAGMENT.search(path)
    return (path, "") if found is None else (path[: found.start()], found[0])


def normalise_host(host: str) -> str:
    """`host` in lower case ASCII: a name without trailing dot, an IPv4 address in four decimal numbers, or an IPv6
    address, compressed and without brackets. Raises BadRequest for any other text."""
    if host.startswith("["):
        return _ipv6(host)
    if len(host) > _MAX_HOST_CHARACTERS + len("."):  # before it is folded, which takes long for a long text
        raise _too_long(host)
    folded = _fold(host.translate(_IDEOGRAPHIC_FULL_STOPS))
    name = ".".join(_ascii_label(label, host) for label in folded.removesuffix(".").split("."))
    if _IPV4_NUMBER.fullmatch(name.rpartition(".")[2]):
        return _ipv4(name, host)
    if len(name) > _MAX_HOST_CHARACTERS:
        raise _too_long(name)
    return name


def _too_long(name: str) -> BadRequest:
    return BadRequest(f"A host name has at most {_MAX_HOST_CHARACTERS} characters; this one has {len(name)}.")


def _fold(text: str) -> str:
    compatible = unicodedata.normalize("NFKC", text)
    folded = "".join(letter if letter in _DEVIATIONS else letter.casefold() for letter in compatible)
    return unicodedata.normalize("NFKC", folded)


def _ascii_label(label: str, host: str) -> str:
    ascii_label, is_valid = label, _ASCII_LABEL.fullmatch(label) is not None
    if not label.isascii() and len(label) <= _MAX_LABEL_CHARACTERS:  # Punycode takes seconds for a long one
        ascii_label = "xn--" + label.encode("punycode").decode("ascii")
        is_valid = all(letter in "-_" or unicodedata.category(letter)[0] in "LMN" for letter in label)
    if not is_valid or len(ascii_label) > _MAX_LABEL_CHARACTERS:
        raise BadRequest(f"The URI's host {host!r} is not a valid host name.")
    return ascii_label


def _ipv4(name: str, host: str) -> str:
    """WHATWG URL, "IPv4 parser": one to four decimal, octal or hexadecimal numbers. The last number fills the remaining
    bytes."""
    parts = name.split(".")
    numbers = [_ipv4_number(part, host) for part in parts]
    last_limit = 256 ** (5 - len(parts)) if len(parts) <= 4 else 0
    if any(number > 255 for number in numbers[:-1]) or numbers[-1] >= last_limit:
        raise _invalid_address(host)
    address = numbers[-1]
    for position, number in enumerate(numbers[:-1]):
        address += number << (24 - 8 * position)
    return str(ipaddress.IPv4Address(address))


def _ipv4_number(part: str, host: str) -> int:
    if not _IPV4_NUMBER.fullmatch(part):
        raise _invalid_address(host)
    if part.startswith("0x"):
        return int(part[2:] or "0", 16)
    try:
        return int(part, 8 if part.startswith("0") else 10)
    except ValueError as error:  # 8 or 9 in an octal number
        raise _invalid_address(host) from error


def _ipv6(host: str) -> str:
    if not host.endswith("]") or "%" in host:
        raise _invalid_address(host)
    try:
        return ipaddress.IPv6Address(host[1:-1]).compressed
    except ValueError as error:
        raise _invalid_address(host) from error


def _invalid_address(host: str) -> BadRequest:
    return BadRequest(f"The URI's host {host!r} is not a valid network address.")

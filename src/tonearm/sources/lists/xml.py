"""Lists that are XML: XSPF, podcast feeds (RSS and Atom), and ASX, which only looks like XML."""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from xml.parsers import expat

from tonearm.sources.lists.listed import MAX_ENTRIES, Listed, Listing, clean, ms_of
from tonearm.sources.playlist import damaged, nothing_to_play

_MILLISECONDS: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_CLOCK: Final = re.compile(r"(?:([0-9]{1,4}):)?([0-9]{1,4}):([0-9]{1,2})", re.ASCII)
# What else podcasts enclose, by its type or medium: covers, transcripts, chapters, documents.
_NO_SOUND: Final = (
    *("image", "document", "text/"),
    *("application/pdf", "application/epub", "application/json", "application/zip"),
)


@dataclass(frozen=True, slots=True)
class _Grammar:
    """Where the facts stand in a document: paths of elements from its root, and below an entry."""

    entry: tuple[str, ...]
    fields: Mapping[tuple[str, ...], str]
    name: tuple[str, ...]


# XSPF 1 (xspf.org/xspf-v1), 4.1.1.2.14.
_XSPF: Final = _Grammar(
    ("playlist", "trackList", "track"),
    {
        ("location",): "location",
        ("title",): "title",
        ("creator",): "author",
        ("image",): "artwork",
        ("duration",): "duration_ms",
    },
    ("playlist", "title"),
)
_ITEM_FIELDS: Final[Mapping[tuple[str, ...], str]] = {
    ("title",): "title",
    ("duration",): "duration",
    ("author",): "author",
    ("creator",): "creator",  # of Dublin Core: often who wrote the text
}
_GRAMMARS: Final[Mapping[str, _Grammar]] = {
    "playlist": _XSPF,
    "rss": _Grammar(("rss", "channel", "item"), _ITEM_FIELDS, ("rss", "channel", "title")),
    "RDF": _Grammar(("RDF", "item"), _ITEM_FIELDS, ("RDF", "channel", "title")),
    "feed": _Grammar(("feed", "entry"), {**_ITEM_FIELDS, ("author", "name"): "author"}, ("feed", "title")),
}


def xml_listing(data: bytes, unread: str) -> Listing:
    """An XSPF, RSS or Atom document, or its beginning: then `unread` says why. Raises `PlayError`.

    Where the XML is damaged, what stands before the damage counts.
    """
    reading = _Reading()
    try:
        reading.read(data, is_whole=not unread)
    except (expat.ExpatError, LookupError, ValueError) as error:
        if not reading.found:
            raise damaged("its XML is wrong") from error
        unread = f"The playlist is damaged after its first {reading.count} entries: its XML is wrong."
    if not reading.found and reading.grammar is not _XSPF and not unread:
        raise nothing_to_play("is a feed of news and no podcast: no item of it encloses a sound")
    return Listing(tuple(reading.found), reading.count, clean(reading.name) or "", unread)


class _Reading:
    """Reads a document. Names are taken in any namespace, and of several elements of an entry the first counts.

    A document type is refused, because only with one can a small document become a large one, and lead to others.
    """

    def __init__(self) -> None:
        self.grammar: _Grammar | None = None
        self.found: list[Listed] = []
        self.count = 0
        self.name = ""
        self._artwork = ""  # of the whole feed
        self._path: tuple[str, ...] = ()
        self._depth = 0
        self._facts: dict[str, str] = {}
        self._field: str | None = None
        self._texts: list[str] = []

    def read(self, data: bytes, *, is_whole: bool) -> None:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse_doctype
        parser.EntityDeclHandler = _refuse_doctype
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._texts.append
        # Feeds have names of HTML's characters, as &eacute;, which XML does not know. Nothing is opened for this.
        parser.UseForeignDTD(True)
        parser.SkippedEntityHandler = lambda name, _: self._texts.append(html.unescape(f"&{name};"))
        parser.Parse(data.removeprefix(b"\xef\xbb\xbf").lstrip(), is_whole)

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth > 8:  # deeper than anything that is looked for
            return
        name = tag.rpartition(" ")[2]
        self._path = (*self._path, name)
        if self.grammar is None:
            self.grammar = _GRAMMARS.get(name, _XSPF)
        grammar, depth = self.grammar, len(self.grammar.entry)
        self._texts.clear()
        self._field = None
        if self._path == grammar.entry:
            self._facts = {}
        elif self._path[:depth] == grammar.entry:
            self._field = grammar.fields.get(self._path[depth:])
            if grammar is not _XSPF:
                self._take_enclosure(name, attributes)
        elif self._path == grammar.name and not self.name:
            self._field = "name"
        elif self._path == (*grammar.name[:-1], "image"):
            self._artwork = self._artwork or attributes.get("href", "")

    def _take_enclosure(self, name: str, attributes: Mapping[str, str]) -> None:
        """RSS 2.0: `<enclosure url type>`; Atom (RFC 4287, 4.2.7.2): `<link rel="enclosure" href type>`; Media RSS:
        `<media:content url type medium>`, whose type may be missing. Pictures: `<itunes:image href>` and
        `<media:thumbnail url>`."""
        if picture := attributes.get({"image": "href", "thumbnail": "url"}.get(name, "")):
            self._facts.setdefault("artwork", picture)
        link = attributes.get("url", "") if name in ("enclosure", "content") else ""
        if name == "link" and attributes.get("rel") == "enclosure":
            link = attributes.get("href", "")
        kind = attributes.get("type", "").strip() or attributes.get("medium", "").strip()
        if link.strip() and not kind.lower().startswith(_NO_SOUND):
            self._facts.setdefault("location", link)

    def _end(self, _tag: str) -> None:
        self._depth -= 1
        if self._depth >= len(self._path):
            return
        text = "".join(self._texts).strip() if self._field is not None else ""
        if text and self._field == "name":
            self.name = text
        elif text and self._field is not None:
            self._facts.setdefault(self._field, text)
        elif self.grammar is not None and self._path == self.grammar.entry and self._facts.get("location", "").strip():
            self.count += 1
            if self.count <= MAX_ENTRIES:
                self.found.append(_listed({"artwork": self._artwork, **self._facts}))
        self._field = None
        self._path = self._path[:-1]


def _listed(facts: Mapping[str, str]) -> Listed:
    duration_ms = facts.get("duration_ms", "")
    length_ms = int(duration_ms) if _MILLISECONDS.fullmatch(duration_ms) else _ms_of_clock(facts.get("duration", ""))
    return Listed(
        facts["location"].strip(),
        clean(facts.get("title", "")),
        is_uri=True,
        author=clean(facts.get("author") or facts.get("creator", "")) or "",
        length_ms=length_ms,
        artwork=facts["artwork"],
    )


def _ms_of_clock(text: str) -> int:
    """The milliseconds of `HH:MM:SS`, `MM:SS` or seconds, as podcasts have them (`itunes:duration`)."""
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        return ms_of(text)
    return ((int(clock[1] or 0) * 60 + int(clock[2])) * 60 + int(clock[3])) * 1000


def _refuse_doctype(*_: object) -> None:
    raise damaged("it declares a document type, which playlists do not need")


# ASX is not XML: case means nothing in it, and & stands as it is.
_ASX_PIECE: Final = re.compile(
    r"<[ \t]{0,9}(/?)(entry|entryref|ref|title|author|duration)\b([^<>]{0,9000})>([^<]{0,9000})",
    re.IGNORECASE | re.ASCII,
)
_ASX_HREF: Final = re.compile(
    r"""\b(?:href|value)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'/]\S*))""", re.IGNORECASE | re.ASCII
)
_ASX_DURATION: Final = re.compile(r"[0-9]{1,4}(?::[0-9]{1,2}){1,2}(?=\.|$)", re.ASCII)


def asx_listing(text: str, unread: str) -> Listing:
    """ASX 3 (Windows Media Metafile): the first `ref` of each entry, and each `entryref`, which leads to a list."""
    found: list[Listed] = []
    count = 0
    name = author = ""
    entry: dict[str, str] | None = None
    for piece in _ASX_PIECE.finditer(text):
        tag, value = piece[2].lower(), html.unescape(piece[4]).strip()
        href = _ASX_HREF.search(piece[3])
        link = html.unescape(next((group for group in href.groups() if group), "") if href is not None else "").strip()
        is_end = bool(piece[1])
        if tag == "entry":
            if entry and entry.get("ref"):
                count += 1
                found.append(_asx_entry(entry, author))
            entry = None if is_end else {}
        elif tag == "entryref" and link:
            count += 1
            found.append(Listed(link, is_uri=True))
        elif is_end:
            continue
        elif entry is not None:
            entry.setdefault(tag, link or value)
        elif tag == "title":
            name = name or value
        elif tag == "author":
            author = author or value
        del found[MAX_ENTRIES:]
    return Listing(tuple(found), count, clean(name) or "", unread)


def _asx_entry(entry: Mapping[str, str], author: str) -> Listed:
    duration = _ASX_DURATION.match(entry.get("duration", ""))
    return Listed(
        entry["ref"],
        clean(entry.get("title", "")),
        is_uri=True,
        author=clean(entry.get("author", author)) or "",
        length_ms=0 if duration is None else _ms_of_clock(duration[0]),
    )

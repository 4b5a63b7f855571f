"""The facts about a source: those from opening it, and those that a track shows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

MAX_TITLE_CHARACTERS: Final = 1000  # of titles from sources; longer ones are cut
MAX_LENGTH_MS: Final = 2**53  # numbers in JSON are exact up to this one

_MOST_LANGUAGE_CHARACTERS: Final = 35  # RFC 5646, 4.4.1
_MOST_TOLD: Final = 20


@dataclass(frozen=True, slots=True)
class AudioChoice:
    """The audio track that plays, of `count` in a source, counted from 1. `language` is the source's own tag, or
    empty."""

    number: int
    count: int
    language: str = ""


def clean_language(text: str | None) -> str:
    """A language tag (RFC 5646, ISO 639-2) in a form that may be shown; empty for `und`."""
    letters = "".join(letter for letter in text or "" if letter.isascii() and (letter.isalnum() or letter == "-"))
    return "" if letters == "und" else letters[:_MOST_LANGUAGE_CHARACTERS]


def wanted_audio(wanted: str, languages: Sequence[str]) -> int | None:
    """The index of the audio track that `wanted` names, by its number from 1 or by its language. `languages` has the
    language of each audio track. `de` also matches `de-AT`. None: there is no such track."""
    if wanted.isdecimal():
        return int(wanted) - 1 if 1 <= int(wanted) <= len(languages) else None
    found = (f"{language}-".lower().startswith(f"{wanted}-".lower()) for language in languages)
    return next((index for index, is_it in enumerate(found) if is_it), None)


def missing_audio(wanted: str, languages: Sequence[str]) -> str:
    """The message for a `wanted_audio` of None."""
    numbered = enumerate(languages[:_MOST_TOLD], start=1)
    there = ", ".join(f"{number} ({language})" if language else str(number) for number, language in numbered)
    return f"there is no #audio={wanted} in it, but {there}" + (", …" if len(languages) > _MOST_TOLD else "")


@dataclass(frozen=True, slots=True)
class SoundForm:
    """The encoding of the audio in a source. `codec` is its common name, such as `mp3`, `flac`, `opus`, and empty
    before the source was opened. `bitrate_bps` is 0 when the source does not give it. `choice` is None in a source with
    one audio track."""

    codec: str = ""
    sample_rate_hz: int = 0
    channels: int = 0
    bitrate_bps: int = 0
    choice: AudioChoice | None = None


UNKNOWN_FORM: Final = SoundForm()


@dataclass(frozen=True, slots=True)
class Mirror:
    """The recording that plays for a track of a service that plays only in its own apps. It was found by its ISRC or by
    words.

    `length_ms` is the length of the recording, `of_length_ms` the length that the service gives; 0 is unknown.
    """

    uri: str
    title: str
    author: str
    length_ms: int
    by: Literal["isrc", "words"]
    of_length_ms: int


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The facts from opening a source. Texts have no lone surrogates and no control characters.

    `length_ms` is 0 when unknown or endless; `probe_name` is the container's name, such as `mp3`, `flac`, `ogg`, `mp4`,
    `wav`, `matroska/webm`; `title` is None without a tag. `opened_uri` is the link that a page led to, else None.
    `loudness_lufs` and `album_loudness_lufs` come from tags. `has_picture`: the file contains a cover.
    `is_length_exact` is False for an estimate, such as one from the bit rate; `is_length_guess` is True for one that
    may be far off. `has_packets`: the source has Opus packets that can be passed through.
    """

    length_ms: int = 0
    is_seekable: bool = False
    is_stream: bool = False
    title: str | None = None
    author: str | None = None
    isrc: str | None = None
    artwork_url: str | None = None
    probe_name: str = ""
    opened_uri: str | None = None
    loudness_lufs: float | None = None
    album_loudness_lufs: float | None = None
    album: str | None = None
    is_length_exact: bool = False
    is_length_guess: bool = False
    has_picture: bool = False
    has_packets: bool = False
    form: SoundForm = UNKNOWN_FORM
    mirror: Mirror | None = None

    def completed_by(self, page: "PageFacts") -> "SourceFacts":
        """These facts, with those of `page` where the source itself has none. A service's facts about a track replace
        those of its mirror."""
        if page.mirror is not None:
            self = replace(self, title=page.title, author=page.author, artwork_url=page.artwork_url, isrc=page.isrc)
        is_stream = self.is_stream or page.is_live
        return replace(
            self,
            length_ms=0 if is_stream else self.length_ms or page.length_ms,
            is_seekable=self.is_seekable and not is_stream,
            is_length_exact=self.is_length_exact and not is_stream,
            is_length_guess=self.is_length_guess and self.length_ms > 0,
            is_stream=is_stream,
            title=self.title or page.title,
            author=self.author or page.author,
            artwork_url=self.artwork_url or page.artwork_url,
            opened_uri=page.opened_uri,
            mirror=page.mirror,
        )

    def of_station(self, name: str) -> "SourceFacts":
        """These facts for a radio station of this name, which becomes the author, and the title where there is none."""
        return replace(self, title=self.title or name, author=name)


@dataclass(frozen=True, slots=True)
class MeasuredLoudness:
    """The loudness of the first `measured_ms` of a track, which have been played, by EBU R128."""

    lufs: float
    measured_ms: int


@dataclass(frozen=True, slots=True)
class PageFacts:
    """The facts that a page gives about the source that it led to, `opened_uri`. Texts are clean as in `SourceFacts`; a
    length of 0 is unknown."""

    opened_uri: str
    title: str | None = None
    author: str | None = None
    length_ms: int = 0
    artwork_url: str | None = None
    is_live: bool = False
    isrc: str | None = None
    mirror: Mirror | None = None


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TrackInfo:
    """The facts about its source that a track shows. `identifier` is the URI as given, `uri` the URI that is opened.

    `is_length_exact`, `is_length_guess` and `has_picture` are not shown.
    """

    identifier: str
    uri: str
    title: str
    author: str = ""
    length_ms: int = 0
    is_seekable: bool = False
    is_stream: bool = False
    artwork_url: str | None = None
    isrc: str | None = None
    source_name: str = "http"
    probe_name: str = ""
    is_length_exact: bool = False
    is_length_guess: bool = False
    has_picture: bool = False
    form: SoundForm = UNKNOWN_FORM
    mirror: Mirror | None = None

    @property
    def shown_length_ms(self) -> int:
        """The length for clients. For a track with a mirror it is the length that its service gives, if known."""
        return self.length_ms if self.mirror is None else self.mirror.of_length_ms or self.length_ms

    def with_facts(self, facts: SourceFacts) -> "TrackInfo":
        """These facts, replaced by those from opening the source. Without a title, the guessed title stays."""
        return replace(
            self,
            uri=facts.opened_uri or self.uri,
            title=facts.title or self.title,
            author=facts.author or self.author,
            length_ms=0 if facts.is_stream else facts.length_ms,
            is_seekable=facts.is_seekable,
            is_stream=facts.is_stream,
            artwork_url=facts.artwork_url or self.artwork_url,
            isrc=facts.isrc or self.isrc,
            probe_name=facts.probe_name or self.probe_name,
            is_length_exact=facts.is_length_exact and not facts.is_stream,
            is_length_guess=facts.is_length_guess,
            has_picture=facts.has_picture,
            form=facts.form,
            mirror=facts.mirror,
        )

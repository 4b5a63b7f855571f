"""Decides whether a search result is the wanted recording: by length, title, artists, and words that mark other
recordings of a song."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tonearm.core.play_queue import PlaylistEntry
from tonearm.core.track_info import MAX_TITLE_CHARACTERS

_LENGTH_MS: Final = 3000
_LENGTH_SHARE: Final = 0.04

# Words of a title that mean another recording of the same song. A word in both titles belongs to the song.
_OTHER_RECORDING: Final = frozenset(
    {
        *("8d", "acapella", "acoustic", "acoustique", "akustik", "backing", "bootleg", "concert", "cover", "covered"),
        *("covers", "demo", "dub", "extended", "guitar", "instrumental", "karaoke", "lesson", "live", "lofi", "mashup"),
        *("medley", "nightcore", "orchestral", "parody", "piano", "reaction", "rehearsal", "remix", "remixed"),
        *("reversed", "rmx", "slowed", "sped", "speed", "tribute", "tutorial", "unplugged", "vivo"),
        *("кавер", "караоке", "концерт", "ремикс", "минус"),
    }
)
_SAME: Final = {
    "remixed": "remix",
    "rmx": "remix",
    "covered": "cover",
    "covers": "cover",
    "speed": "sped",
    "vivo": "live",
    "acoustique": "acoustic",
    "akustik": "acoustic",
}
# In scripts without blanks between words: karaoke, live, and covers.
_OTHER_RECORDING_PARTS: Final = (
    *("カラオケ", "歌ってみた", "弾いてみた", "ライブ", "カバー", "翻唱", "伴奏", "现场", "現場"),
    *("노래방", "라이브", "커버"),
)
# Additions to the name in a title: guests, and the kind of master. Either title may lack them.
_GUESTS: Final = re.compile(r"\b(?:feat|ft|featuring)\b\.?\s.*", re.IGNORECASE)
_BESIDE: Final = re.compile(
    r"\b(?:feat|ft|featuring|with|remaster(?:ed)?|remastérisé|mono|stereo|version|edit|mix|single|album|bonus|deluxe|"
    r"from|original|explicit|clean|soundtrack|ost|live|acoustic|remix|instrumental|demo|karaoke|cover)\b",
    re.IGNORECASE,
)
_BRACKETS: Final = re.compile(
    r"\(([^()]*)\)|\[([^\[\]]*)\]|\uff08([^\uff08\uff09]*)\uff09|\u3010([^\u3010\u3011]*)\u3011"
)
_BETWEEN: Final = re.compile(r", | & | feat\. ")
_LITTLE: Final = frozenset({"the", "a", "an", "and", "und", "et", "y", "n"})


@dataclass(frozen=True, slots=True)
class Recording:
    """A track as its service describes it. `length_ms` is 0 and `isrc` empty if it does not give them. `uri` is the
    service's link."""

    uri: str
    title: str
    artists: tuple[str, ...]
    length_ms: int = 0
    isrc: str = ""
    artwork_url: str | None = None

    @property
    def author(self) -> str:
        return ", ".join(self.artists)[:MAX_TITLE_CHARACTERS]

    @property
    def words(self) -> str:
        """The words to search for: the first artist, and the title without its guests."""
        title = _BRACKETS.sub(lambda found: "" if _GUESTS.match(_inside(found)) else found[0], self.title)
        title = _GUESTS.sub("", title)
        return " ".join(f"{self.artists[0] if self.artists else ''} {title}".split())


def fitting(wanted: Recording, found: Sequence[PlaylistEntry]) -> list[PlaylistEntry]:
    """The entries of `found` that are the recording, the likeliest first: the artist's own uploads before others, then
    those with the whole title, as `(Ada's Version)`, then by the difference of lengths."""

    def unlikeliness(entry: PlaylistEntry) -> tuple[bool, bool, int]:
        has_whole_title = _names(wanted.title, _all_of(entry))
        return not _is_by_artist(wanted, entry), not has_whole_title, abs(entry.length_ms - wanted.length_ms)

    return sorted((entry for entry in found if _is_it(wanted, entry)), key=unlikeliness)


def nearest(wanted: Recording, found: Sequence[PlaylistEntry]) -> PlaylistEntry | None:
    """The closest entry of `found`, for a message that says why none fits. An entry with the title comes first."""
    return min(
        found,
        key=lambda entry: (not _has_title(wanted, entry), abs(entry.length_ms - wanted.length_ms)),
        default=None,
    )


def _is_it(wanted: Recording, entry: PlaylistEntry) -> bool:
    most_ms = max(_LENGTH_MS, _LENGTH_SHARE * wanted.length_ms)
    has_length = not wanted.length_ms or (entry.length_ms > 0 and abs(entry.length_ms - wanted.length_ms) <= most_ms)
    return (
        has_length
        and _has_title(wanted, entry)
        and (not wanted.artists or any(_names(artist, _all_of(entry)) for artist in _each_artist(wanted)))
        and _other_recording(wanted.title, wanted) == _other_recording(_all_of(entry), wanted)
    )


def _has_title(wanted: Recording, entry: PlaylistEntry) -> bool:
    return _names(_name_of(wanted.title), entry.title or "") or _names(_name_of(wanted.title), _all_of(entry))


def _is_by_artist(wanted: Recording, entry: PlaylistEntry) -> bool:
    """YouTube names the uploads of labels `… - Topic`."""
    author = entry.author.removesuffix(" - Topic")
    return any(_names(artist, author) for artist in _each_artist(wanted))


def _each_artist(wanted: Recording) -> list[str]:
    """The artists as given, and the single artists in them: some services give several artists as one text."""
    parts = (part for artist in wanted.artists for part in _BETWEEN.split(artist))
    return [*wanted.artists, *(part for part in parts if part.strip())]


def _all_of(entry: PlaylistEntry) -> str:
    return f"{entry.title or ''} {entry.author}"


def _name_of(title: str) -> str:
    """The title without additions to its name; the whole title if nothing else remains."""
    name = _BRACKETS.sub(lambda found: "" if _BESIDE.search(_inside(found)) else found[0], title)
    name, dash, beside = name.partition(" - ")
    if dash and not _BESIDE.search(beside):
        name = f"{name} {beside}"
    return _GUESTS.sub("", name) if _words(_GUESTS.sub("", name)) else title


def _inside(found: re.Match[str]) -> str:
    return next(filter(None, found.groups()), "").strip()


def _names(wanted: str, text: str) -> bool:
    """Whether `text` contains all words of `wanted`, or its letters in a row, as in `AdeleVEVO` and in scripts without
    blanks."""
    words, there = _telling(_words(wanted)), _words(text)
    if not words:
        return _folded(wanted) in _folded(text)
    return set(words) <= set(there) or "".join(words) in "".join(_telling(there))


def _other_recording(text: str, wanted: Recording) -> set[str]:
    """The words in `text` that mean another recording, except for those in the artists' names, and for one occurrence
    of each word in the name of the song, as in `Live Forever`."""
    words = _words(text)
    for word in _words(_name_of(wanted.title)):
        if word in words:
            words.remove(word)
    left = set(words).difference(*map(_words, wanted.artists))
    folded = _folded(text)
    marks = {_SAME.get(word, word) for word in left & _OTHER_RECORDING}
    return marks | {part for part in _OTHER_RECORDING_PARTS if part in folded}


def _words(text: str) -> list[str]:
    """The words of a text in lower case, without accents and apostrophes."""
    return re.findall(r"\w+", re.sub("['\u2019`\u00b4]", "", _folded(text)))


def _telling(words: list[str]) -> list[str]:
    """The words without those that are often omitted, unless there are no others."""
    return [word for word in words if word not in _LITTLE] or words


def _folded(text: str) -> str:
    parts = unicodedata.normalize("NFKD", text.casefold())
    # Marks over Latin, Greek and Cyrillic letters are left out; in other scripts they tell letters apart.
    bare = "".join(one for one in parts if not "\u0300" <= one <= "\u036f")
    return unicodedata.normalize("NFKC", bare)

"""Decides what a typed text means: an encoded track, a link, a search, a path, or words to search for."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Literal

from tonearm.core.source_uri import link_without_scheme
from tonearm.core.track_codec import is_encoded_track

_LINK: Final = re.compile(r"(?:[a-z][a-z0-9+.-]*://|https?:|file:|sound:|spotify:)\S", re.ASCII | re.IGNORECASE)
_SEARCH: Final = re.compile(r"([a-z][a-z0-9]{0,30}search):(\s*)\S", re.ASCII | re.IGNORECASE)
# A link without a preview, or with words for it, as chats have them.
_IN_MARKDOWN: Final = re.compile(
    r"<(https?://[^<>|\s]+)(?:\|[^<>|]*)?>|\[[^\[\]]*\]\(<?(https?://[^<>\s]+?)>?\)", re.ASCII | re.IGNORECASE
)
# A link among words, as share buttons write it. Marks of chats and of sentences around it are no part of it.
_IN_WORDS: Final = re.compile(r"https?://[^\s<>\"`|]+", re.IGNORECASE)
_BEHIND_A_LINK: Final = ".,;:!?*~'"
_PATH: Final = re.compile(r"/|\.\.?/|~/")


@dataclass(frozen=True, slots=True)
class Meaning:
    """`text` is the text to open, decode or search. Unless it is encoded, `parse_source_uri` accepts it."""

    kind: Literal["encoded", "uri", "search"]
    text: str


def what_is_meant(
    text: str, *, searches: Collection[str], default_search: str, is_there: Callable[[str], bool]
) -> Meaning:
    """`searches` are the prefixes before a colon that make this node search. `is_there` says whether a text is the path
    of a file or folder that may be played."""
    bare = text.strip()
    if found := _IN_MARKDOWN.fullmatch(bare):
        bare = found[1] or found[2]
    if is_encoded_track(bare):
        return Meaning("encoded", bare)
    if _LINK.match(bare) and "\n" not in bare:  # else words follow
        return Meaning("uri", bare)
    searched = _SEARCH.match(bare)
    if searched is not None and (searched[1].lower() in searches or not searched[2]):  # not `Research: a song`
        return Meaning("search", " ".join(bare.split()))
    if _PATH.match(bare) or is_there(bare):
        return Meaning("uri", bare)
    if " " not in bare and (link := link_without_scheme(bare)):
        return Meaning("uri", link)
    if links := _IN_WORDS.findall(bare):  # of several, the error says that one at a time can be given
        return Meaning("uri", " ".join(dict.fromkeys(map(_without_end, links))))
    return Meaning("search", f"{default_search}:{' '.join(bare.split())}")


def _without_end(link: str) -> str:
    """`link` without the marks behind it."""
    bare = link.rstrip(_BEHIND_A_LINK)
    while bare.endswith(")") and bare.count(")") > bare.count("("):
        bare = bare[:-1]
    return bare

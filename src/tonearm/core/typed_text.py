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
    r"<(https?://[^<>\s]+)>|\[[^\[\]]*\]\(<?(https?://[^<>\s]+?)>?\)", re.ASCII | re.IGNORECASE
)
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
    if _LINK.match(bare):
        return Meaning("uri", bare)
    searched = _SEARCH.match(bare)
    if searched is not None and (searched[1].lower() in searches or not searched[2]):  # not `Research: a song`
        return Meaning("search", bare)
    if _PATH.match(bare) or is_there(bare):
        return Meaning("uri", bare)
    link = "" if " " in bare else link_without_scheme(bare)
    return Meaning("uri", link) if link else Meaning("search", f"{default_search}:{bare}")

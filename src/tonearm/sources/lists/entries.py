"""Makes tracks of the entries of a list: where they lead, and which of them this node may play."""

import logging
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from tonearm.core.errors import BadRequest, RequestError
from tonearm.core.failure import PlayError
from tonearm.core.play_queue import LeftOut, Playlist, PlaylistEntry
from tonearm.core.printable import readable, text_for_logs
from tonearm.core.source_uri import (
    SourceUri,
    media_fragment,
    parse_source_uri,
    split_fragment,
    text_of_file,
    title_from_uri,
    uri_for_logs,
)
from tonearm.sources.lists.listed import MAX_ENTRIES, Listed, Listing
from tonearm.sources.lists.names import LocalNames, is_of_drive
from tonearm.sources.lists.parsing import parse_listing, possible_encodings, whole_characters
from tonearm.sources.local_file import FileOpener
from tonearm.sources.playlist import leads_to_network, linked_uri, nothing_to_play, too_large
from tonearm.sources.resolver.answers import artwork_of

_MAX_LOGGED_CHARACTERS: Final = 200
_MOST_TRIED: Final = 20  # names of a list that show its encoding

log = logging.getLogger(__name__)

Admit = Callable[[SourceUri], SourceUri]


def playlist_in(data: bytes, playlist: SourceUri, admit: Admit, files: FileOpener, *, unread: str = "") -> Playlist:
    """The tracks of the list at `playlist` whose bytes are `data`, or its beginning: then `unread` says why.

    `admit` judges each entry. It blocks: a local list's names are looked for among the `files`. Raises `PlayError`.
    """
    if unread:
        data = whole_characters(data)
    if playlist.kind == "http":
        return playlist_of(parse_listing(data, unread=unread), playlist, admit)
    names = LocalNames(files, playlist.path)
    return playlist_of(_listing_by_names(data, names, unread), playlist, admit, names)


def _listing_by_names(data: bytes, names: LocalNames, unread: str) -> Listing:
    """The list in the encoding in which the most of its names are found; where none is, in the likeliest for titles."""
    encodings = possible_encodings(data)
    best: Listing | None = None
    most = 0
    for encoding in encodings if len(encodings) > 1 else ():
        listing = parse_listing(data, encoding, unread=unread)
        telling = [listed.reference for listed in listing.entries if not listed.reference.isascii()][:_MOST_TRIED]
        found = sum(names.find(reference) is not None for reference in telling)
        if found > most:
            best, most = listing, found
        if found and found == len(telling):
            break
    return best or parse_listing(data, encodings[0] if len(encodings) == 1 else None, unread=unread)


def playlist_of(listing: Listing, playlist: SourceUri, admit: Admit, names: LocalNames | None = None) -> Playlist:
    """The entries of a list that may be played; the others are left out with their reasons. Raises `PlayError`."""
    entries: list[PlaylistEntry] = []
    reasons: dict[str, None] = {}  # each once, in order
    # A sheet for one file may name it as it was called before.
    has_one_file = len({listed.reference for listed in listing.entries}) == 1
    for listed in listing.entries:
        try:
            uri = admit(parse_source_uri(entry_uri(playlist, listed, names, or_own=listed.is_part and has_one_file)))
        except (RequestError, PlayError) as error:
            reason = error.message if isinstance(error, RequestError) else error.failure.message
            entry, told = _shown_entry(playlist, listed), text_for_logs(reason)
            log.warning("an entry of a playlist is left out: %s: %s (of %s)", entry, told, _shown(playlist))
            reasons[reason] = None
        else:
            artwork_url = artwork_of(listed.artwork)
            facts = (listed.title, listed.author, listed.is_part, listed.length_ms, artwork_url)
            entries.append(PlaylistEntry(uri, *facts, has_own_tags=True))
    if listing.count > MAX_ENTRIES:
        log.warning(
            "only the first %d of a playlist's %d entries are used: %s", MAX_ENTRIES, listing.count, _shown(playlist)
        )
        reasons[f"Only the first {MAX_ENTRIES} of the playlist's {listing.count} entries are taken."] = None
    if listing.unread:
        reasons[listing.unread] = None
    if listing.unread and not listing.entries:
        raise too_large("there is no entry in its beginning, and it is too long to be read whole")
    if not entries:
        raise nothing_to_play("has no entry that this node may play" if listing.entries else "has no entries")
    left_out = LeftOut.because(listing.count - len(entries), reasons)
    return Playlist(tuple(entries), left_out, listing.name or title_from_uri(playlist))


def entry_uri(playlist: SourceUri, listed: Listed, names: LocalNames | None = None, *, or_own: bool = False) -> str:
    """The URI or path of an entry of the playlist at `playlist`, with the part of the file that it is.

    `names` finds the files of a local playlist; `or_own` as in `LocalNames.find`. Raises what `linked_uri` raises.
    """
    part = media_fragment(listed.start_ms, listed.end_ms) if listed.is_part else ""
    reference = listed.reference
    if playlist.kind == "http":
        if listed.is_part and not leads_to_network(reference):
            reference = quote(reference)  # a file's name, in which ? and # mean nothing
        return linked_uri(playlist, reference, is_uri=listed.is_uri) + part
    if names is None or leads_to_network(reference):
        return linked_uri(playlist, reference, is_uri=listed.is_uri) + part
    path = names.find(reference, is_uri=listed.is_uri, or_own=or_own)
    if path is None:
        reference, fragment = split_fragment(reference)
        part = part or fragment
        path = names.find(reference, is_uri=listed.is_uri)
    if path is not None:
        return text_of_file(path) + part
    if is_of_drive(reference):
        raise BadRequest("The entry lies on a drive of another machine, and no file of its name beside the playlist.")
    return linked_uri(playlist, reference, is_uri=listed.is_uri) + part


def _shown(uri: SourceUri) -> str:
    return uri_for_logs(uri.given)[:_MAX_LOGGED_CHARACTERS]


def _shown_entry(playlist: SourceUri, listed: Listed) -> str:
    reference = listed.reference
    if playlist.kind == "http":  # then a relative one is a link, too
        reference = reference.partition("#")[0].partition("?")[0]
    return uri_for_logs(readable(reference))[:_MAX_LOGGED_CHARACTERS]

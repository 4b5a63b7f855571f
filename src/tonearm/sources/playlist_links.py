"""Where the entries of a playlist lead, seen from the playlist."""

import posixpath
import re
from typing import Final
from urllib.parse import unquote, urljoin

from tonearm.core.errors import BadRequest
from tonearm.core.source_uri import SourceUri
from tonearm.sources import playlist_errors

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)
_NETWORK: Final = re.compile(r"https?:", re.ASCII | re.IGNORECASE)


def linked_uri(playlist: SourceUri, reference: str, *, is_uri: bool) -> str:
    """The URI or path that `reference` in the playlist at `playlist` means. Its form and policy are not judged here.

    `is_uri`: relative references are percent-encoded, as in HLS and XSPF; else they are plain in local playlists.
    Raises `PlayError` for one that leads from the network to this machine, `BadRequest` for one that is no URI.
    """
    reference = reference.strip()
    if _NETWORK.match(reference):
        return reference
    if playlist.kind == "http":
        if _SCHEME.match(reference):
            raise playlist_errors.leads_to_file()
        try:
            joined = urljoin(playlist.normalised, reference)
        except ValueError as error:
            raise BadRequest("The playlist's entry cannot be read as a URI.") from error
        if not _NETWORK.match(joined):
            raise playlist_errors.leads_to_file()
        return joined
    if _SCHEME.match(reference):
        return reference
    path = unquote(reference, errors="surrogateescape") if is_uri else reference
    return posixpath.join(posixpath.dirname(playlist.path), path)

"""A list of sources that stands where one source was expected."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlaylistEntry:
    """`uri` as a track can be given; `title` as the playlist calls it, clean, None when it does not."""

    uri: str
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Playlist:
    """At least one entry, in order; each passed the form check and the policy."""

    entries: tuple[PlaylistEntry, ...]

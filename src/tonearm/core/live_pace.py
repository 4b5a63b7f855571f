"""Recognises HTTP sources of MP3 and AAC, and of Ogg from radio servers, that are live streams without `icy-` headers.

A stream has no length, arrives in real time, and has other bytes at each request. A file that is sent slowly, or
generated while it is sent, has no length either. So a stream must meet points 1 and 2, and one of points 3 and 4:

1. The response has no length, and ignores the requested range.
2. It has no mark of a file: an entity tag, a date, a name for saving, an offer of ranges, a content encoding.
3. The server software sends only radio stations without a length.
4. The audio arrives in real time: over two seconds, 0.5 to 1.7 seconds of audio come per second. The initial burst does
   not count, unless the data begins like a file: then nothing may come ahead of time.

A stream recognised by point 4 is requested again when it breaks off. A source that begins twice with the same bytes,
and ends after the same number of bytes, is a file.
"""

import re
from collections.abc import Mapping
from typing import Final

from tonearm.core.mpeg_frames import begins_as_file, seconds_a_byte
from tonearm.core.opened_source import media_type

WATCHED_S: Final = 2.0
MOST_WATCHED_BYTES: Final = 512 * 1024  # no station sends so much at once
COMPARED_BYTES: Final = 4096

_TYPES: Final = frozenset(
    {"audio/mpeg", "audio/mp3", "audio/x-mpeg", "audio/mpeg3", "audio/aac", "audio/aacp", "audio/x-aac"}
)
_FILE_HEADERS: Final = ("ETag", "Last-Modified", "Content-Disposition", "Content-Length", "Content-Range")
_STATION_SERVERS: Final = re.compile(r"icecast|shoutcast|liquidsoap|steamcast|azuracast|nicecast", re.IGNORECASE)
_OGG_TYPES: Final = frozenset({"audio/ogg", "application/ogg"})
_BURST_S: Final = 0.5  # the burst is over then
_LEAST_PACE: Final = 0.5
_MOST_PACE: Final = 1.7
_ONE_PIECE_S: Final = 1.25  # of audio, which servers send in one piece
_LEAST_MEASURED_BYTES: Final = 1024
_MEASURED_BYTES: Final = 24 * 1024


def may_be_live(headers: Mapping[str, str]) -> bool:
    """Whether a 200 answer with these headers, whose names have no case, may be a stream: points 1 and 2."""
    said = media_type(headers.get("Content-Type"))
    if said not in _TYPES and not (said in _OGG_TYPES and is_of_station_server(headers)):
        return False
    has_mark = any(name in headers for name in _FILE_HEADERS) or headers.get("Content-Encoding")
    return not has_mark and headers.get("Accept-Ranges", "none").strip().lower() == "none"


def is_of_station_server(headers: Mapping[str, str]) -> bool:
    """Point 3."""
    return _STATION_SERVERS.search(headers.get("Server", "")) is not None


class Pace:
    """The rate at which audio arrives: point 4. `feed` gets all bytes, each with the time in seconds since the first
    byte."""

    def __init__(self) -> None:
        self._first = b""
        self._tried_bytes = 0
        self._second_a_byte: float | None = None
        self._has_burst = True
        self._burst_bytes = 0
        self._size_bytes = 0
        self._at_s = 0.0

    def feed(self, at_s: float, data: bytes) -> None:
        self._at_s = at_s
        self._size_bytes += len(data)
        if at_s <= _BURST_S:
            self._burst_bytes = self._size_bytes
        if self._second_a_byte is None and self._tried_bytes < _MEASURED_BYTES:
            self._first += data[: _MEASURED_BYTES - len(self._first)]
            if len(self._first) >= min(max(self._tried_bytes * 2, _LEAST_MEASURED_BYTES), _MEASURED_BYTES):
                self._tried_bytes = len(self._first)
                self._second_a_byte = seconds_a_byte(self._first)
                self._has_burst = not begins_as_file(self._first)

    @property
    def is_a_files(self) -> bool:
        """Whether so much came ahead of time that the source cannot be a stream."""
        sound_s, passed_s = self._behind_burst(self._at_s)
        return self._size_bytes > MOST_WATCHED_BYTES or sound_s > _ONE_PIECE_S + passed_s * _MOST_PACE

    @property
    def is_live(self) -> bool:
        """Whether this is the pace of a stream, once `WATCHED_S` have passed and the source has not ended."""
        sound_s, passed_s = self._behind_burst(WATCHED_S)
        return passed_s * _LEAST_PACE <= sound_s <= passed_s * _MOST_PACE

    def _behind_burst(self, at_s: float) -> tuple[float, float]:
        if self._second_a_byte is None:
            return 0.0, max(at_s, _BURST_S)
        size_bytes = self._size_bytes - (self._burst_bytes if self._has_burst else 0)
        return size_bytes * self._second_a_byte, max(at_s - (_BURST_S if self._has_burst else 0.0), 0.0)

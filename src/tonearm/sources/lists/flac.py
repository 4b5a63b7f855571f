"""The CUE sheet in a FLAC file (RFC 9639): as text in its tags, which has titles, or as a block of its own."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tonearm.core.file_formats import id3_tag_bytes
from tonearm.core.opened_source import OpenedSource
from tonearm.core.source_uri import SourceUri, text_of_file
from tonearm.sources.http.settings import FetchSettings
from tonearm.sources.lists.cue import cue
from tonearm.sources.lists.listed import MAX_ENTRIES, Listed, Listing, clean

_PATTERN: Final = b"fLaC"
_STREAM_INFO, _COMMENT, _SHEET = 0, 4, 5  # kinds of blocks
_MOST_BLOCKS: Final = 128
_MOST_READ_BYTES: Final = 2 * 1024 * 1024  # of one block, and of what is passed over where nothing can be skipped
_MOST_COMMENTS: Final = 10_000  # those behind them are not read
_SHEET_HEAD_BYTES: Final = 396  # catalogue number, lead-in, flags and reserved bytes, and the number of tracks
_TRACK_BYTES: Final = 36
_INDEX_BYTES: Final = 12
_MOST_AUDIO_TRACK: Final = 99  # 170 and 255 are lead-outs
_MOST_MS: Final = 10**12  # a URI names a time with up to nine digits of seconds


async def flac_listing(source: OpenedSource, uri: SourceUri, settings: FetchSettings) -> Listing | None:
    """The tracks of the sheet within the FLAC file at `uri`; None without one, or when it is not there in time.

    Raises `PlayError`.
    """
    blocks: Mapping[int, bytes] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(settings.headers_timeout_s + settings.stall_timeout_s):
            blocks = await _blocks(source)
    return await asyncio.to_thread(_listing, blocks, uri)  # the longest sheets take some 100 ms


def _listing(blocks: Mapping[int, bytes], uri: SourceUri) -> Listing | None:
    whole = text_of_file(uri.path) if uri.kind == "file" else uri.given.partition("#")[0]
    tags = _tags(blocks.get(_COMMENT, b""))
    parts, name = cue(tags.get("CUESHEET", ""))
    if not parts or len({part.reference for part in parts}) > 1:
        parts = _parts_of_block(blocks.get(_SHEET, b""), _sample_rate_hz(blocks.get(_STREAM_INFO, b"")))
    if not parts:
        return None
    entries = tuple(replace(part, reference=whole) for part in parts[:MAX_ENTRIES])
    return Listing(entries, len(parts), clean(name or tags.get("ALBUM", "")) or "")


async def _blocks(source: OpenedSource) -> Mapping[int, bytes]:
    """The first block of each kind that is looked for, without its header."""
    found: dict[int, bytes] = {}
    data = _Reading(source)
    at = id3_tag_bytes(await data.read(0, 10))
    if await data.read(at, 4) != _PATTERN:
        return found
    at += len(_PATTERN)
    for _ in range(_MOST_BLOCKS):
        header = await data.read(at, 4)
        if len(header) < 4:
            break
        kind, size = header[0] & 0x7F, int.from_bytes(header[1:], "big")
        if kind in (_STREAM_INFO, _COMMENT, _SHEET) and kind not in found and size <= _MOST_READ_BYTES:
            found[kind] = await data.read(at + 4, size)
        at += 4 + size
        if header[0] & 0x80:
            break
    return found


class _Reading:
    """Reads parts of a source, further and further behind its beginning."""

    def __init__(self, source: OpenedSource) -> None:
        self._source = source
        self._at = 0  # where `_data` begins
        self._data = b""

    async def read(self, at: int, size: int) -> bytes:
        """Up to `size` bytes from `at`, fewer at the end, and where too much would have to be passed over."""
        if at > self._at + len(self._data) and self._source.is_seekable:
            self._at, self._data = at, b""
        while at + size > self._at + len(self._data):
            passed = min(at - self._at, len(self._data))
            self._at, self._data = self._at + passed, self._data[passed:]
            if at - self._at > _MOST_READ_BYTES:
                return b""
            part = await self._source.reader.read_at(self._at + len(self._data), 64 * 1024)
            if not part:
                break
            self._data += part
        return self._data[at - self._at : at - self._at + size]


def _tags(block: bytes) -> Mapping[str, str]:
    """The Vorbis comments (RFC 9639, 8.6) with their names in upper case; of several of one name the first."""
    found: dict[str, str] = {}
    at = 4 + int.from_bytes(block[:4], "little")
    count = min(int.from_bytes(block[at : at + 4], "little"), _MOST_COMMENTS)
    at += 4
    while count > 0 and at + 4 <= len(block):
        size = int.from_bytes(block[at : at + 4], "little")
        name, _, text = block[at + 4 : at + 4 + size].decode("utf-8", "surrogateescape").partition("=")
        found.setdefault(name.upper(), text)
        at, count = at + 4 + size, count - 1
    return found


def _sample_rate_hz(stream_info: bytes) -> int:
    return int.from_bytes(stream_info[10:13], "big") >> 4


def _parts_of_block(block: bytes, rate_hz: int) -> list[Listed]:
    """The audio tracks of a CUESHEET block (RFC 9639, 8.7), from their index 1 to that of the next, else to the end."""
    if not rate_hz:
        return []
    starts: list[tuple[int, int, bool]] = []  # the track's number, where it starts in ms, and whether it is audio
    at, count = _SHEET_HEAD_BYTES, block[_SHEET_HEAD_BYTES - 1] if len(block) >= _SHEET_HEAD_BYTES else 0
    for _ in range(count):
        track = block[at : at + _TRACK_BYTES]
        if len(track) < _TRACK_BYTES:
            break
        first, number, is_audio = int.from_bytes(track[:8], "big"), track[8], not track[21] & 0x80
        at += _TRACK_BYTES
        end = at + _INDEX_BYTES * track[35]
        indices = [block[index : index + _INDEX_BYTES] for index in range(at, end, _INDEX_BYTES)]
        at = end
        offset = next((int.from_bytes(index[:8], "big") for index in indices if index[8:9] == b"\x01"), 0)
        starts.append((number, (first + offset) * 1000 // rate_hz, is_audio and number <= _MOST_AUDIO_TRACK))
    parts: list[Listed] = []
    for (number, start_ms, is_audio), following in zip(starts, [*starts, None][1:], strict=True):
        is_last = following is None or following[0] > _MOST_AUDIO_TRACK
        end_ms = None if is_last or following is None or not start_ms < following[1] < _MOST_MS else following[1]
        if is_audio and start_ms < _MOST_MS:
            length_ms = 0 if end_ms is None else end_ms - start_ms
            parts.append(
                Listed("", f"Track {number}", is_part=True, start_ms=start_ms, end_ms=end_ms, length_ms=length_ms)
            )
    return parts

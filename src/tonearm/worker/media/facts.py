"""Reads the metadata of a source: its tags, its picture, and the titles of a live stream."""

import re
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition
from av.video.stream import VideoStream

from tonearm.core.file_formats import MAX_PICTURE_BYTES
from tonearm.core.printable import readable
from tonearm.core.track_info import SoundForm, SourceFacts
from tonearm.worker.media.formats import EarningReader, probe_name
from tonearm.worker.media.lengths import counted_length_s, is_length_guess, length_s_by_bit_rate
from tonearm.worker.media.opening import OpenedAudio, open_container
from tonearm.worker.reading import errors
from tonearm.worker.reading.guarded_reader import (
    GuardedReader,
    RewoundReader,
    TimedReader,
    mp4_index,
    read_first_bytes,
)
from tonearm.worker.reading.pictures import PictureHider
from tonearm.worker.reading.reader import MediaReader

MAX_TAG_CHARACTERS: Final = 1000

_TOO_LARGE_PICTURE: Final = f"the picture in it has more than {MAX_PICTURE_BYTES // (1024 * 1024)} MiB"

_TITLE_KEYS: Final = ("title", "tit2", "icy-name")
_AUTHOR_KEYS: Final = ("artist", "album_artist", "albumartist", "author", "performer", "composer")
_ISRC_KEYS: Final = ("isrc", "tsrc", "com.apple.itunes:isrc")
_R128_REFERENCE_LUFS: Final = -23.0
_REPLAYGAIN_REFERENCE_LUFS: Final = -18.0
_MOST_GAIN_DB: Final = 51.0  # the maximum of ReplayGain's binary format: a larger value is not a gain
_ARTWORK_KEYS: Final = ("artwork_url", "artworkurl", "cover_url", "coverart_url")

# PyAV's names for the side data that libav's Ogg demuxer adds to the first packet after new comments, by version.
_COMMENT_TYPES: Final = frozenset({"strings_metadata", "metadata_update"})


def source_facts(
    opened: OpenedAudio, *, sound_bytes: int | None, is_seekable: bool, is_live: bool, is_exact: bool
) -> SourceFacts:
    """The facts of an opened source.

    `sound_bytes` is the size of the file without a tag at its beginning, None if unknown. `is_seekable` applies to the
    reader, `is_exact` to the container's length. A live source has no length and is not seekable, and its tags belong
    to the current title.
    """
    counted_s = Fraction(0) if is_live or not opened.has_true_length else counted_length_s(opened)
    length_s = counted_s
    if not counted_s and not is_live and opened.has_true_length:
        length_s = length_s_by_bit_rate(opened, sound_bytes)
    length_ms = round(length_s * 1000)
    tags = read_tags(opened.container.metadata, opened.stream.metadata)
    return SourceFacts(
        length_ms=length_ms,
        is_seekable=is_seekable and length_ms > 0 and opened.first_frames[0].pts is not None,
        is_stream=is_live,
        title=title_of(tags) if is_live else tags.title,
        author=None if is_live else tags.author,
        isrc=tags.isrc,
        artwork_url=tags.artwork_url,
        loudness_lufs=None if is_live else tags.loudness_lufs,
        album_loudness_lufs=None if is_live else tags.album_loudness_lufs,
        album=None if is_live else tags.album,
        probe_name=probe_name(opened.container.format.name),
        is_length_exact=counted_s > 0 and is_exact,
        is_length_guess=not is_exact and is_length_guess(opened),
        has_picture=_picture_stream(opened.container) is not None,
        form=_form(opened),
    )


def _form(opened: OpenedAudio) -> SoundForm:
    codec, frame = opened.stream.codec_context, opened.first_frames[0]
    bitrate_bps = codec.bit_rate or opened.container.bit_rate or 0
    return SoundForm(
        codec.codec.canonical_name, frame.sample_rate, frame.layout.nb_channels, max(0, bitrate_bps), opened.choice
    )


@dataclass(frozen=True, slots=True)
class Tags:
    """Cleaned tags. None for a tag that is missing or blank."""

    title: str | None = None
    author: str | None = None
    isrc: str | None = None
    artwork_url: str | None = None
    loudness_lufs: float | None = None
    album_loudness_lufs: float | None = None
    album: str | None = None


def read_tags(*sources: Mapping[str, str]) -> Tags:
    """Takes each tag from the first of `sources` that has it: pass the container's tags before the stream's."""
    found: dict[str, str] = {}
    for source in sources:
        for key, value in source.items():
            text = clean_text(value)
            if text:
                found.setdefault(clean_text(key).lower(), text)
    return Tags(
        title=_first(found, _TITLE_KEYS),
        author=_first(found, _AUTHOR_KEYS),
        isrc=_isrc(_first(found, _ISRC_KEYS)),
        artwork_url=next((link for key in _ARTWORK_KEYS if (link := _link(found.get(key)))), None),
        loudness_lufs=_loudness_lufs(found, "track"),
        album_loudness_lufs=_loudness_lufs(found, "album"),
        album=found.get("album"),
    )


def _loudness_lufs(tags: Mapping[str, str], kind: str) -> float | None:
    """The measured loudness of a track or album: a tag has the gain from this loudness to its reference.

    References: RFC 7845, 5.2.1 (R128_TRACK_GAIN: 1/256 dB, relative to -23 LUFS); ReplayGain 2.0 specification,
    "Reference level" (-18 LUFS). When both tags are present, R128_TRACK_GAIN counts: it is relative to the header's
    output gain, which libav applies.
    """
    r128 = re.fullmatch(r"[+-]?[0-9]{1,5}", tags.get(f"r128_{kind}_gain", ""))
    if r128:
        return _R128_REFERENCE_LUFS - int(r128.group()) / 256.0
    gain = re.fullmatch(
        r"([+-]?[0-9]{1,3}(?:[.,][0-9]{1,9})?)\s*(?:db)?", tags.get(f"replaygain_{kind}_gain", "").lower()
    )
    if gain is None:
        return None
    gain_db = float(gain.group(1).replace(",", "."))
    return _REPLAYGAIN_REFERENCE_LUFS - gain_db if abs(gain_db) <= _MOST_GAIN_DB else None


def clean_text(text: str) -> str:
    """`text` without lone surrogates, control characters and outer blanks, cut to `MAX_TAG_CHARACTERS`.

    Bytes that are not UTF-8 arrive as surrogate escapes. They are read as Windows-1252, the encoding of old taggers.
    """
    text = readable(text)
    visible = "".join(" " if character in "\t\r\n" else character for character in text)
    printable = "".join(character for character in visible if ord(character) >= 32 and not 127 <= ord(character) < 160)
    return printable.strip()[:MAX_TAG_CHARACTERS].strip()


def _first(found: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    return next((found[key] for key in keys if key in found), None)


def _isrc(text: str | None) -> str | None:
    """ISO 3901: twelve letters and digits, often written with hyphens."""
    if text is None:
        return None
    code = text.replace("-", "").replace(" ", "").upper()
    return code if len(code) == 12 and code.isascii() and code.isalnum() else None


def _link(text: str | None) -> str | None:
    if text is None or not text.lower().startswith(("http://", "https://")):
        return None
    # A truncated link is useless.
    return text if " " not in text and len(text) < MAX_TAG_CHARACTERS else None


@dataclass(frozen=True, slots=True)
class TitleChange:
    """The audio from `sample` on has this title. Counts the decoded samples, at 48 kHz."""

    sample: int
    title: str


class StreamTitles:
    """Finds the sample at which each title of a live stream begins, to within a packet and a resampler's delay.

    Radio servers mix titles into the bytes. The node removes them and passes them on with their offsets (`expect`, from
    any thread). Ogg streams are chained, one stream for each title (RFC 3533, 4), with the title in its comments.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: deque[tuple[int, str]] = deque()
        self._changes: list[TitleChange] = []
        self._part_sample = 0
        self.skipped_bytes = 0  # bytes before those that libav received

    def expect(self, offset: int, title: str) -> None:
        with self._lock:
            self._expected.append((offset, title))

    def part_begins(self, sample: int, title: str | None) -> None:
        """From this sample on another demuxer counts the samples. `title`: the title of the part, if it is another."""
        self._part_sample = sample
        if title:
            self._changes.append(TitleChange(sample, title))

    def packet_begins(self, packet: "Packet[AudioStream]", sample: int) -> None:
        """`sample` counts from the beginning of the part."""
        title = None
        with self._lock:
            at = None if packet.pos is None else self.skipped_bytes + packet.pos
            while at is not None and self._expected and self._expected[0][0] <= at:
                _, title = self._expected.popleft()
        title = _title_in_comments(packet) or title
        if title:
            self._changes.append(TitleChange(self._part_sample + sample, title))

    def take_changes(self) -> list[TitleChange]:
        changes, self._changes = self._changes, []
        return changes


def title_of(tags: Tags) -> str | None:
    """Artist and title in one text, in the form of radio servers."""
    if tags.author and tags.title:
        return f"{tags.author} - {tags.title}"[:MAX_TAG_CHARACTERS]
    return tags.title


def _title_in_comments(packet: "Packet[AudioStream]") -> str | None:
    for side_data in packet.iter_sidedata():
        if side_data.data_type in _COMMENT_TYPES:
            return title_of(read_tags(_strings(bytes(side_data))))
    return None


def _strings(raw: bytes) -> Mapping[str, str]:
    """Parses names and values, each of which ends with a zero byte."""
    texts = [part.decode("utf-8", "surrogateescape") for part in raw.split(b"\0")]
    return dict(zip(texts[0::2], texts[1::2], strict=False))


def read_picture(reader: MediaReader, *, name: str, content_type: str | None, size_bytes: int | None) -> bytes:
    """The first picture in the file as stored, not decoded; `b""` when there is none. The limits on reading are those
    of opening audio. Raises PlayError."""
    timed = TimedReader(reader, name)
    first = read_first_bytes(timed)
    pictures = PictureHider(RewoundReader(first, timed))
    with EarningReader(pictures) as earning:
        guard = GuardedReader(
            earning,
            source_name=name,
            content_type=content_type,
            size_bytes=size_bytes,
            index=mp4_index(first, size_bytes, timed),
        )
        pictures.on_hidden = guard.allow
        container = open_container(guard)
    try:
        stream = _picture_stream(container)
        if stream is None:
            return b""
        # Pictures come before all other packets.
        packet = next(iter(container.demux(stream)), None)
        guard.raise_cause()
        if packet is None or not packet.size:
            return b""
        if packet.size > MAX_PICTURE_BYTES:
            raise errors.limit_exceeded(name, _TOO_LARGE_PICTURE)
        return bytes(packet)
    finally:
        container.close()


def _picture_stream(container: InputContainer) -> VideoStream | None:
    """The stream of a picture: for libav a picture is a video stream with a single packet."""
    streams = (stream for stream in container.streams.video if stream.disposition & Disposition.attached_pic)
    return next(streams, None)

"""What opening a source told, as tracks show it.

Title, author, ISRC and artwork link from the tags of a container and its audio stream.

What an endless stream calls the sound, and from which sample on.
"""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from av.audio.stream import AudioStream
from av.packet import Packet

from tonearm.core.track_info import SourceFacts
from tonearm.decoding.worker import formats
from tonearm.decoding.worker.formats import probe_name
from tonearm.decoding.worker.opening import OpenedAudio

MAX_TAG_CHARACTERS: Final = 1000

_TITLE_KEYS: Final = ("title", "tit2", "icy-name")
_AUTHOR_KEYS: Final = ("artist", "album_artist", "albumartist", "author", "performer", "composer")
_ISRC_KEYS: Final = ("isrc", "tsrc", "com.apple.itunes:isrc")
_ARTWORK_KEYS: Final = ("artwork_url", "artworkurl", "cover_url", "coverart_url")


@dataclass(frozen=True, slots=True)
class Tags:
    """What tags told, cleaned. None is a tag that is missing or blank."""

    title: str | None = None
    author: str | None = None
    isrc: str | None = None
    artwork_url: str | None = None


def read_tags(*sources: Mapping[str, str]) -> Tags:
    """The tags of the first of `sources` (container first, then stream) that has each of them."""
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
    )


def clean_text(text: str) -> str:
    """`text` fit for JSON: no lone surrogates, no control characters, outer blanks off, at a bearable length.

    Bytes that were no UTF-8 arrive as surrogate escapes; they are read as Windows-1252, which old taggers wrote.
    """
    text = _without_surrogates(text)
    visible = "".join(" " if character in "\t\r\n" else character for character in text)
    printable = "".join(character for character in visible if ord(character) >= 32 and not 127 <= ord(character) < 160)
    return printable.strip()[:MAX_TAG_CHARACTERS].strip()


def _without_surrogates(text: str) -> str:
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        # Halves of UTF-16 pairs.
        return text.encode("utf-8", "replace").decode()
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")


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
    # A link that was cut off leads nowhere.
    return text if " " not in text and len(text) < MAX_TAG_CHARACTERS else None


# PyAV's names for what libav's Ogg demuxer adds to the first packet after new comments; which one depends on versions.
_COMMENT_TYPES: Final = frozenset({"strings_metadata", "metadata_update"})


@dataclass(frozen=True, slots=True)
class HeardTitle:
    """`sample` counts decoded samples at 48 kHz."""

    sample: int
    title: str


class StreamTitles:
    """Finds the sample of each title, to within a packet and what a resampler holds back.

    Radio servers mix titles into the bytes: the node takes them out and tells them with their offsets (`expect`, from
    any thread). Ogg streams begin anew with each title, as a chain (RFC 3533, 4), and carry it in their comments.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._expected: deque[tuple[int, str]] = deque()
        self._heard: list[HeardTitle] = []

    def expect(self, offset: int, title: str) -> None:
        """What begins at this offset of the bytes has this title."""
        with self._lock:
            self._expected.append((offset, title))

    def packet_begins(self, packet: "Packet[AudioStream]", sample: int) -> None:
        """The sound of `packet` begins at `sample`."""
        title = self._title_before(packet.pos) if packet.pos is not None else None
        title = _title_in_comments(packet) or title
        if title:
            self._heard.append(HeardTitle(sample, title))

    def take_heard(self) -> list[HeardTitle]:
        heard, self._heard = self._heard, []
        return heard

    def _title_before(self, offset: int) -> str | None:
        title = None
        with self._lock:
            while self._expected and self._expected[0][0] <= offset:
                _, title = self._expected.popleft()
        return title


def title_of(tags: Tags) -> str | None:
    """Artist and title as one text, as radio servers write them."""
    if tags.author and tags.title:
        return f"{tags.author} - {tags.title}"
    return tags.title


def _title_in_comments(packet: "Packet[AudioStream]") -> str | None:
    for side_data in packet.iter_sidedata():
        if side_data.data_type in _COMMENT_TYPES:
            return title_of(read_tags(_strings(bytes(side_data))))
    return None


def _strings(raw: bytes) -> Mapping[str, str]:
    """Names and values, each ended by a zero."""
    texts = [part.decode("utf-8", "surrogateescape") for part in raw.split(b"\0")]
    return dict(zip(texts[0::2], texts[1::2], strict=False))


_CONTAINER_CLOCK_HZ: Final = 1_000_000
_OPUS_RATE_HZ: Final = 48_000


def source_facts(opened: OpenedAudio, *, sound_bytes: int | None, is_seekable: bool, is_live: bool) -> SourceFacts:
    """The facts of a source whose reader is or is not seekable.

    A live source has no length and no other position, and its tags are those of the piece that is on.

    `sound_bytes` is the size of the file without a tag at its beginning, when it is known.
    """
    length_s = (
        Fraction(0)
        if is_live or not opened.tells_length
        else _length_s(opened) or _length_s_by_bit_rate(opened, sound_bytes)
    )
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
        probe_name=probe_name(opened.container.format.name),
    )


def heard_source_samples(opened: OpenedAudio) -> int | None:
    """How many samples of the source are to be heard, when its container cuts the last packet short; else None.

    In MP4 the track's duration (ISO 14496-12, edit list or sample times) ends within AAC's last packet. libav cuts the
    beginning by it, not the end. Lossless codecs have a short last packet, and edit lists tell whole milliseconds only.
    """
    is_cut_short = probe_name(opened.container.format.name) == "mp4" and opened.stream.codec_context.name == "aac"
    if not is_cut_short or not opened.tells_length:
        return None
    duration_s = _stream_duration_s(opened)
    return None if duration_s is None else round(duration_s * opened.first_frames[0].sample_rate)


def _length_s(opened: OpenedAudio) -> Fraction:
    container_name = opened.container.format.name
    duration_s = _stream_duration_s(opened)
    if duration_s is None:
        container_duration = opened.container.duration
        if container_duration is None or container_duration <= 0:
            return Fraction(0)
        duration_s = Fraction(container_duration, _CONTAINER_CLOCK_HZ)
        if "matroska" in container_name:
            # The duration of Matroska counts what is dropped at the beginning.
            duration_s -= Fraction(_opus_pre_skip(opened), _OPUS_RATE_HZ)
    elif container_name == "ogg":
        # libav counts from timestamp 0 to the last page's, with Opus's pre-skip; sound may begin before 0.
        first_timestamp = opened.first_frames[0].pts or 0
        duration_s -= first_timestamp * _time_base(opened) + Fraction(_opus_pre_skip(opened), _OPUS_RATE_HZ)
    elif container_name == "mpegts":
        # From the first timestamp to the last one's beginning.
        first = opened.first_frames[0]
        duration_s += Fraction(first.samples, first.sample_rate)
    return max(duration_s, Fraction(0))


def _length_s_by_bit_rate(opened: OpenedAudio, sound_bytes: int | None) -> Fraction:
    """An estimate, for MP3 and the like from servers that cannot jump: there libav does not tell a duration."""
    bit_rate = opened.container.bit_rate or opened.stream.codec_context.bit_rate or 0
    if sound_bytes is None or bit_rate <= 0 or opened.container.format.name not in formats.UNFRAMED_CONTAINERS:
        return Fraction(0)
    return Fraction(sound_bytes * 8, bit_rate)


def _stream_duration_s(opened: OpenedAudio) -> Fraction | None:
    duration = opened.stream.duration
    return duration * _time_base(opened) if duration is not None and duration > 0 else None


def _time_base(opened: OpenedAudio) -> Fraction:
    # PyAV 19 has a rational type of its own.
    time_base = opened.stream.time_base
    return Fraction(time_base.numerator, time_base.denominator) if time_base else Fraction(0)


def _opus_pre_skip(opened: OpenedAudio) -> int:
    """Samples at 48 kHz, from the identification header (RFC 7845, 5.1)."""
    codec_context = opened.stream.codec_context
    header = codec_context.extradata if codec_context.name == "opus" else None
    return int.from_bytes(header[10:12], "little") if header else 0

"""HLS playlists (RFC 8216) as values, and the choice of the variant with the best sound in a master playlist.

Only tags that matter for sound are read, so mistakes in other tags do no harm. URIs are as they are written, relative
to the playlist's.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

from m3u8 import parser

from tonearm.core.failure import FailureCode, PlayError
from tonearm.sources.playlist import damaged, nothing_to_play, playlist_error, too_large

MAX_SEGMENTS: Final = 10_000
MAX_VARIANTS: Final = 1_000
_MAX_DURATION_S: Final = 24 * 3600.0
_MAX_LINE_CHARACTERS: Final = 16 * 1024
_MAX_NUMBER: Final = 1 << 62
# The tags that the library reads. EXT-X-TARGETDURATION and EXT-X-KEY are left to `_OwnTags`: the library refuses
# fractions, which some servers write, and compares every key with every other.
_USED_TAGS: Final = frozenset(
    {
        "#EXTINF", "#EXT-X-BYTERANGE", "#EXT-X-DISCONTINUITY", "#EXT-X-ENDLIST", "#EXT-X-GAP", "#EXT-X-MAP",
        "#EXT-X-MEDIA", "#EXT-X-MEDIA-SEQUENCE", "#EXT-X-STREAM-INF",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes of a file: from `start` on, `length` of them."""

    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or a part of one. `reference` is the URI as the playlist has it."""

    reference: str
    byte_range: ByteRange | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """`number` counts over all versions of a live playlist. `init` has to be read before the segment's own bytes.

    `breaks`: the segment has another encoding or other timestamps than the one before. `is_gap`: there is no file.
    """

    number: int
    piece: Piece
    duration_s: float
    init: Piece | None = None
    breaks: bool = False
    is_gap: bool = False


@dataclass(frozen=True, slots=True)
class MediaPlaylist:
    """A media playlist. `is_complete`: no segments will be added."""

    segments: tuple[Segment, ...]
    target_duration_s: float
    is_complete: bool

    @property
    def length_ms(self) -> int:
        """The length of all segments."""
        return round(1000 * math.fsum(segment.duration_s for segment in self.segments if not segment.is_gap))


@dataclass(frozen=True, slots=True)
class Rendition:
    """A version of the sound, as a language. Without a `reference` it is in the variant's own segments."""

    group: str
    reference: str | None
    is_default: bool = False
    is_autoselect: bool = False


@dataclass(frozen=True, slots=True)
class Variant:
    """The whole presentation in one quality. `codecs` are in the form of RFC 6381, empty when not given."""

    reference: str
    bandwidth: int
    codecs: tuple[str, ...] = ()
    has_resolution: bool = False
    audio_group: str | None = None


@dataclass(frozen=True, slots=True)
class MasterPlaylist:
    variants: tuple[Variant, ...]
    renditions: tuple[Rendition, ...] = ()


def parse_hls(text: str) -> MasterPlaylist | MediaPlaylist:
    """The values of a playlist. Blocks for long on a long one. Raises `PlayError` for a playlist that is damaged, too
    long or encrypted."""
    lines = text.splitlines()
    if any(len(line) > _MAX_LINE_CHARACTERS for line in lines):
        raise too_large(f"a line has more than {_MAX_LINE_CHARACTERS} characters")
    entries = sum(1 for line in lines if line.strip() and not line.startswith("#"))
    if entries > MAX_SEGMENTS:
        raise too_large(f"it has {entries} entries, and {MAX_SEGMENTS} are the most")
    tags = _OwnTags()
    try:
        data: dict[str, Any] = parser.parse("\n".join(lines), custom_tags_parser=tags.take)
        if data["is_variant"]:
            return _master(data)
        return _media(data, tags)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise damaged(f"its HLS tags are wrong ({type(error).__name__})") from error


def _encrypted(method: str) -> PlayError:
    message = f"The HLS stream is encrypted ({method}); encrypted HLS is not supported."
    return playlist_error(FailureCode.UNSUPPORTED_CODEC, message, "Give a stream without encryption.")


class _OwnTags:
    """Hides lines from the library, and reads two tags itself."""

    def __init__(self) -> None:
        self.target_duration_s: float | None = None

    def take(self, line: str, _number: int, _data: object, _state: object) -> bool:
        """True to hide the line from the library."""
        tag, _, value = line.partition(":")
        if tag == "#EXT-X-TARGETDURATION":
            self.target_duration_s = _duration_s(value)
        elif tag == "#EXT-X-KEY":
            method = _key_method(value)
            if method != "NONE":
                raise _encrypted(method)
        return tag not in _USED_TAGS


def _key_method(attributes: str) -> str:
    for attribute in attributes.split(","):
        name, _, value = attribute.partition("=")
        if name.strip().upper() == "METHOD":
            return "".join(character for character in value if character.isalnum() or character == "-")[:40]
    return "unknown method"


def _master(data: dict[str, Any]) -> MasterPlaylist:
    variants = tuple(
        Variant(
            reference=listed["uri"],
            bandwidth=int(listed["stream_info"].get("bandwidth", 0)),
            codecs=tuple(
                codec.strip() for codec in listed["stream_info"].get("codecs", "").split(",") if codec.strip()
            ),
            has_resolution="resolution" in listed["stream_info"],
            audio_group=listed["stream_info"].get("audio"),
        )
        for listed in data["playlists"][:MAX_VARIANTS]
    )
    if not variants:
        raise nothing_to_play("names no stream")
    renditions = tuple(
        Rendition(
            group=listed.get("group_id", ""),
            reference=listed.get("uri") or None,
            is_default=listed.get("default", "").upper() == "YES",
            is_autoselect=listed.get("autoselect", "").upper() == "YES",
        )
        for listed in data["media"][:MAX_VARIANTS]
        if listed.get("type", "").upper() == "AUDIO"
    )
    return MasterPlaylist(variants, renditions)


def _media(data: dict[str, Any], tags: _OwnTags) -> MediaPlaylist:
    number = _whole(data["media_sequence"])
    segments: list[Segment] = []
    before: Piece | None = None
    for listed in data["segments"]:
        if "uri" not in listed:
            continue  # tags at the end, without a file (yet)
        piece = Piece(listed["uri"], _segment_range(listed.get("byterange"), listed["uri"], before))
        segments.append(
            Segment(
                number=number + len(segments),
                piece=piece,
                duration_s=_duration_s(listed["duration"]) if "duration" in listed else 0.0,
                init=_init(listed.get("init_section")),
                breaks=bool(listed.get("discontinuity")),
                is_gap=bool(listed.get("gap_tag")),
            )
        )
        before = piece
    target_duration_s = tags.target_duration_s or max((segment.duration_s for segment in segments), default=0.0)
    return MediaPlaylist(tuple(segments), target_duration_s, bool(data["is_endlist"]))


def _segment_range(text: str | None, reference: str, before: Piece | None) -> ByteRange | None:
    """Parses `n[@o]`; without an offset the range follows the range before it in the same file (RFC 8216, 4.3.2.2)."""
    if text is None:
        return None
    length_text, has_offset, offset = text.partition("@")
    length = _whole(length_text)
    if length == 0:
        raise ValueError(text)
    if has_offset:
        return ByteRange(_whole(offset), length)
    start = 0
    if before is not None and before.reference == reference and before.byte_range is not None:
        start = before.byte_range.start + before.byte_range.length
    return ByteRange(start, length)


def _init(listed: dict[str, str] | None) -> Piece | None:
    if not listed:
        return None
    text = listed.get("byterange")
    return Piece(listed["uri"], _segment_range(text, listed["uri"], None))


def _whole(value: str | int) -> int:
    number = int(value)
    if not 0 <= number <= _MAX_NUMBER:
        raise ValueError(value)
    return number


def _duration_s(value: str | float) -> float:
    seconds = float(value)
    if not 0 <= seconds <= _MAX_DURATION_S:  # NaN is not, either
        raise ValueError(value)
    return seconds


# RFC 6381 names, by their beginnings. Codecs that the decoder does not have are worth less than unknown ones.
_AUDIO_RANKS: Final = (
    ("mp4a.40.42", 0),  # xHE-AAC
    ("mp4a.40.5", 2),  # HE-AAC: for low bit rates
    ("mp4a.40.29", 2),
    ("mp4a", 3),
    ("mp3", 3),
    ("opus", 3),
    ("vorbis", 3),
    ("flac", 4),
    ("alac", 4),
    ("ac-3", 2),  # mostly surround, which would only be mixed down
    ("ec-3", 2),
    ("ac-4", 0),
    ("dts", 0),
)
_UNKNOWN_RANK: Final = 1
_NO_AUDIO_RANK: Final = 0


def best_audio(master: MasterPlaylist) -> str:
    """The reference of the media playlist to play.

    - Where sound has playlists of its own (`EXT-X-MEDIA` with a URI), only that is fetched: the default rendition of
      the group that belongs to the best sound, then to the highest bandwidth.
    - Else a variant without picture: the best codec, then the highest bandwidth.
    - Else, because the picture has to be fetched along: of those with the best codec the lowest bandwidth.
    """
    separate = [variant for variant in master.variants if _rendition_of(variant, master) is not None]
    if separate:
        rendition = _rendition_of(max(separate, key=_quality), master)
        assert rendition is not None
        assert rendition.reference is not None
        return rendition.reference
    sound_only = [variant for variant in master.variants if not _has_picture(variant)]
    if any(_audio_rank(variant) > _NO_AUDIO_RANK for variant in sound_only):
        return max(sound_only, key=_quality).reference
    return max(master.variants, key=lambda variant: (_audio_rank(variant), -variant.bandwidth)).reference


def _rendition_of(variant: Variant, master: MasterPlaylist) -> Rendition | None:
    """The rendition that plays with the variant unless the user chooses; None when it is in the variant itself."""
    group = [rendition for rendition in master.renditions if rendition.group == variant.audio_group]
    if not group:
        return None
    chosen = max(group, key=lambda rendition: (rendition.is_default, rendition.is_autoselect))
    return chosen if chosen.reference is not None else None


def _quality(variant: Variant) -> tuple[int, int]:
    return _audio_rank(variant), variant.bandwidth


def _audio_rank(variant: Variant) -> int:
    if not variant.codecs:
        return _UNKNOWN_RANK
    return max((_codec_rank(codec) for codec in variant.codecs if _is_audio(codec)), default=_NO_AUDIO_RANK)


def _has_picture(variant: Variant) -> bool:
    return variant.has_resolution or any(not _is_audio(codec) for codec in variant.codecs)


def _codec_rank(codec: str) -> int:
    return next(rank for beginning, rank in _AUDIO_RANKS if codec.lower().startswith(beginning))


def _is_audio(codec: str) -> bool:
    return any(codec.lower().startswith(beginning) for beginning, _ in _AUDIO_RANKS)

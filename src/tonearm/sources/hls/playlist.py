"""HLS playlists (RFC 8216) as values, and the choice of the variant with the best sound in a master playlist.

Only tags that matter for sound are read, so mistakes in other tags do no harm. URIs are as they are written, relative
to the playlist's.
"""

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from tonearm.core.failure import FailureCode
from tonearm.core.track_info import AudioChoice, clean_language, missing_audio, wanted_audio
from tonearm.sources.playlist import damaged, nothing_to_play, playlist_error, too_large

# A day of segments of two seconds, and the bytes of twelve hours whose links have long tokens.
MAX_SEGMENTS: Final = 50_000
MAX_HLS_BYTES: Final = 8 * 1024 * 1024
MAX_VARIANTS: Final = 1_000
_MAX_DURATION_S: Final = 24 * 3600.0
_MAX_LINE_CHARACTERS: Final = 16 * 1024
_MAX_NUMBER: Final = 1 << 62
_OF_SEGMENT: Final = frozenset({"#EXTINF", "#EXT-X-BYTERANGE", "#EXT-X-DISCONTINUITY", "#EXT-X-GAP"})
# RFC 8216, 4.2: a value in quotes may have commas in it.
_ATTRIBUTE: Final = re.compile(r'(?:^|,)\s*([A-Za-z0-9-]+)\s*=\s*(?:"([^"]*)"?|([^,]*))', re.ASCII)


@dataclass(frozen=True, slots=True)
class ByteRange:
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Key:
    """The parameters of AES-128: the URI of the key, as the playlist has it, and the initialization vector."""

    reference: str
    iv: bytes


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or a part of a file. `reference` is the URI as the playlist has it. Without `key` it is not encrypted."""

    reference: str
    byte_range: ByteRange | None = None
    key: Key | None = None


@dataclass(frozen=True, slots=True)
class MediaSegment:
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
    """A media playlist. `is_complete`: no segments will be added. `starts_s` of a complete playlist has the start of
    each segment, and as its last entry the end of the last segment."""

    segments: tuple[MediaSegment, ...]
    target_duration_s: float
    is_complete: bool
    starts_s: Sequence[float] = ()

    @property
    def length_ms(self) -> int:
        return round(1000 * self.starts_s[-1]) if self.is_complete else 0


@dataclass(frozen=True, slots=True)
class Rendition:
    """A version of the audio, such as a language. Without a `reference` the variant's own segments contain it."""

    group: str
    reference: str | None
    is_default: bool = False
    is_autoselect: bool = False
    language: str = ""


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
    """The values of a playlist. A long playlist blocks for long. Raises `PlayError` for a playlist that is damaged, too
    long, or encrypted by another method than AES-128."""
    lines = [line.strip() for line in re.split("[\r\n]", text)]  # titles may have other ends of lines
    if any(len(line) > _MAX_LINE_CHARACTERS for line in lines):
        raise too_large(f"a line has more than {_MAX_LINE_CHARACTERS} characters")
    entries = sum(1 for line in lines if line and not line.startswith("#"))
    if entries > MAX_SEGMENTS:
        raise too_large(f"it has {entries} entries, more than {MAX_SEGMENTS}")
    try:
        is_master = any(line.startswith("#EXT-X-STREAM-INF:") for line in lines)
        return _master(lines) if is_master else _media(lines)
    except (ValueError, KeyError, OverflowError) as error:
        raise damaged(f"its HLS tags are wrong ({type(error).__name__})") from error


def _attributes(text: str) -> dict[str, str]:
    return {name.upper(): quoted or plain.strip() for name, quoted, plain in _ATTRIBUTE.findall(text)}


def _master(lines: Iterable[str]) -> MasterPlaylist:
    variants: list[Variant] = []
    renditions: list[Rendition] = []
    stream: dict[str, str] | None = None  # of the next URI
    for line in lines:
        tag, _, value = line.partition(":")
        if tag == "#EXT-X-STREAM-INF":
            stream = _attributes(value)
        elif tag == "#EXT-X-MEDIA" and len(renditions) < MAX_VARIANTS:
            media = _attributes(value)
            if media.get("TYPE", "").upper() == "AUDIO":
                is_default, is_autoselect = (media.get(name, "").upper() == "YES" for name in ("DEFAULT", "AUTOSELECT"))
                group, language = media.get("GROUP-ID", ""), clean_language(media.get("LANGUAGE"))
                renditions.append(Rendition(group, media.get("URI") or None, is_default, is_autoselect, language))
        elif stream is not None and line and not line.startswith("#") and len(variants) < MAX_VARIANTS:
            codecs = tuple(codec.strip() for codec in stream.get("CODECS", "").split(",") if codec.strip())
            bandwidth = int(float(stream.get("BANDWIDTH", "0")))
            variants.append(Variant(line, bandwidth, codecs, "RESOLUTION" in stream, stream.get("AUDIO")))
            stream = None
    if not variants:
        raise nothing_to_play("names no stream")
    return MasterPlaylist(tuple(variants), tuple(renditions))


def _media(lines: Sequence[str]) -> MediaPlaylist:
    head = dict(line.partition(":")[::2] for line in lines if line.startswith("#EXT-X-"))
    first = _whole(head.get("#EXT-X-MEDIA-SEQUENCE", "0"))
    segments: list[MediaSegment] = []
    tags: dict[str, str] = {}  # of the next segment
    init: Piece | None = None
    before: Piece | None = None
    encryption = _Encryption()
    for line in lines:
        tag, _, value = line.partition(":")
        number = first + len(segments)
        if tag in _OF_SEGMENT:
            tags[tag] = value
        elif tag == "#EXT-X-MAP":
            attributes = _attributes(value)
            uri = attributes["URI"]
            init = Piece(uri, _segment_range(attributes.get("BYTERANGE"), uri, None), encryption.key(number))
        elif tag == "#EXT-X-KEY":
            encryption.add(_attributes(value))
        elif line and not line.startswith("#") and tags.keys() & {"#EXTINF", "#EXT-X-BYTERANGE"}:
            byte_range = _segment_range(tags.get("#EXT-X-BYTERANGE"), line, before)
            before = Piece(line, byte_range, encryption.key(number))
            duration_s = _duration_s(tags.get("#EXTINF", "0").partition(",")[0])
            breaks, is_gap = "#EXT-X-DISCONTINUITY" in tags, "#EXT-X-GAP" in tags
            segments.append(MediaSegment(number, before, duration_s, init, breaks, is_gap))
            tags = {}
    target_duration_s = _duration_s(head.get("#EXT-X-TARGETDURATION", "0"))
    target_duration_s = target_duration_s or max((segment.duration_s for segment in segments), default=0.0)
    # RFC 8216, 4.3.3.5: a playlist of this type does not change.
    if "#EXT-X-ENDLIST" not in head and head.get("#EXT-X-PLAYLIST-TYPE", "").strip().upper() != "VOD":
        return MediaPlaylist(tuple(segments), target_duration_s, is_complete=False)
    lengths_s = (0.0 if segment.is_gap else segment.duration_s for segment in segments)
    starts_s = array("d", accumulate(lengths_s, initial=0.0))
    return MediaPlaylist(tuple(segments), target_duration_s, is_complete=True, starts_s=starts_s)


class _Encryption:
    """The `EXT-X-KEY` tags that apply at the current line of a playlist.

    Adjacent tags give one key for several systems (RFC 8216, 4.3.2.4). Only the plain key, "identity", is used here.
    """

    def __init__(self) -> None:
        self._first_method = self._last_method = "NONE"
        self._plain: Mapping[str, str] | None = None  # the attributes of the first plain key
        self._is_used = True

    def add(self, attributes: Mapping[str, str]) -> None:
        method = attributes.get("METHOD", "unknown method")
        if self._is_used:
            self._first_method, self._plain, self._is_used = method, None, False
        self._last_method = method
        is_plain = method == "AES-128" and attributes.get("KEYFORMAT", "identity").lower() == "identity"
        if is_plain and self._plain is None:
            self._plain = attributes

    def key(self, number: int) -> Key | None:
        """The key that applies here, in segment `number`; None without encryption. Raises `PlayError` and
        `ValueError`."""
        self._is_used = True
        if self._last_method == "NONE":
            return None
        if self._plain is not None:
            iv = _iv(self._plain["IV"]) if "IV" in self._plain else number.to_bytes(16, "big")
            return Key(self._plain["URI"], iv)
        shown = re.sub("[^A-Za-z0-9 -]", "", self._first_method)[:40]
        message = f"The HLS stream is encrypted ({shown}, with a key that only licensed players get)."
        hint = "Give a stream without DRM; of encrypted streams, those with AES-128 and a key by URI play."
        raise playlist_error(FailureCode.UNSUPPORTED_CODEC, message, hint)


def _iv(text: str) -> bytes:
    """The vector of a hexadecimal number, such as 0x1F."""
    if not text.lower().startswith("0x"):
        raise ValueError(text)
    return int(text, 16).to_bytes(16, "big")


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


def _whole(value: str) -> int:
    number = int(value)
    if not 0 <= number <= _MAX_NUMBER:
        raise ValueError(value)
    return number


def _duration_s(value: str) -> float:
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


class BestAudio(NamedTuple):
    """The reference of a media playlist, and the chosen rendition; None without a choice."""

    reference: str
    choice: AudioChoice | None = None


def best_audio(master: MasterPlaylist, wanted: str = "") -> BestAudio:
    """The media playlist to play.

    - If audio has separate playlists (`EXT-X-MEDIA` with a URI), only audio is fetched. The group is that of the best
      codec, then of the highest bandwidth. Within the group, the rendition `wanted` by number or language is chosen,
      else the default rendition.
    - Else a variant without video: the best codec, then the highest bandwidth.
    - Else the best codec, then the lowest bandwidth, because the video has to be fetched, too.

    Raises `PlayError` when there are renditions, but not the wanted one.
    """
    best_first = sorted(master.variants, key=_quality, reverse=True)
    chosen = (_rendition(variant, master, wanted) for variant in best_first)
    separate = next((found for found in chosen if found is not None), None)
    if separate is not None:
        return separate
    sound_only = [variant for variant in master.variants if not _has_picture(variant)]
    if any(_audio_rank(variant) > _NO_AUDIO_RANK for variant in sound_only):
        return BestAudio(max(sound_only, key=_quality).reference)
    return BestAudio(max(master.variants, key=lambda variant: (_audio_rank(variant), -variant.bandwidth)).reference)


def _rendition(variant: Variant, master: MasterPlaylist, wanted: str) -> BestAudio | None:
    """The rendition that plays with the variant. None when the variant has no rendition, or when none was wanted and
    the variant itself contains the default rendition."""
    group = [rendition for rendition in master.renditions if rendition.group == variant.audio_group]
    if not group:
        return None
    languages = [rendition.language for rendition in group]
    index = wanted_audio(wanted, languages) if wanted else _default_of(group)
    if index is None:
        message = f"The stream does not have this audio: {missing_audio(wanted, languages)}."
        raise playlist_error(FailureCode.NO_AUDIO_STREAM, message, "Choose one of those, or none.")
    reference = group[index].reference or (variant.reference if wanted else None)
    choice = AudioChoice(index + 1, len(group), languages[index]) if len(group) > 1 else None
    return None if reference is None else BestAudio(reference, choice)


def _default_of(group: Sequence[Rendition]) -> int:
    return max(range(len(group)), key=lambda index: (group[index].is_default, group[index].is_autoselect))


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

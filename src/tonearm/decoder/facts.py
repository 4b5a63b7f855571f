"""What opening a source told, as tracks show it."""

from fractions import Fraction
from typing import Final

from tonearm.core.track_info import SourceFacts
from tonearm.decoder import formats
from tonearm.decoder.formats import probe_name
from tonearm.decoder.opening import OpenedAudio
from tonearm.decoder.stream_titles import title_of
from tonearm.decoder.tags import read_tags

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

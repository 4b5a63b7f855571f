"""The length of a source, and whether it is exact to the sample or only estimated from file size and bit rate."""

import re
from fractions import Fraction
from typing import Final

from tonearm.core.file_formats import id3_tag_bytes
from tonearm.worker.media import formats
from tonearm.worker.media.formats import probe_name
from tonearm.worker.media.opening import OpenedAudio
from tonearm.worker.media.opus_format import OpusHead
from tonearm.worker.reading.reader import MediaReader

# Containers whose headers count the samples, or whose last packet has its position.
_COUNTING_CONTAINERS: Final = frozenset(
    {"aiff", "au", "caf", "flac", "matroska/webm", "mp4", "ogg", "w64", "wav", "wv"}
)

_HEAD_BYTES: Final = 256  # of an MP3's first frame: enough for all fields up to the count
_VBRI_OFFSET: Final = 36  # Fraunhofer's header always comes after 32 bytes of side information, for any frame
_MOST_PADDING_S: Final = 0.5  # libav leaves out what an encoder added to the sound
_MOST_FRAME_PADDING_BYTES: Final = 2  # by which frames of a constant bit rate differ
_MOST_BEFORE_INFO_BYTES: Final = 40  # the header of the frame, side information, the word itself
_COUNTS_BYTES: Final = 2
_COUNTS_FRAMES: Final = 1  # a flag in Xing's header: the number of frames follows

# iTunes's tag iTunSMPB, which qaac and fdkaac write, too, mostly without an edit list. In hexadecimal: a zero, the
# samples that the encoder added before the sound and after it, and the samples of the sound.
_ITUNES_SAMPLES: Final = re.compile(r"\s*0+ ([0-9A-F]{8}) ([0-9A-F]{8}) ([0-9A-F]{16})\b", re.ASCII | re.IGNORECASE)

_PADDED_CODECS: Final = frozenset({"aac", "opus"})
_CONTAINER_CLOCK_HZ: Final = 1_000_000
_OPUS_RATE_HZ: Final = 48_000


def audible_source_samples(opened: OpenedAudio) -> int | None:
    """The number of audible samples of the source if its container cuts the last packet short; otherwise None.

    In MP4 the track's duration (ISO 14496-12, edit list or sample times, or else iTunes's tag) ends within the last
    packet of AAC and Opus. libav uses it to cut the beginning, but not the end. Lossless codecs have a short last
    packet, and edit lists count milliseconds only.
    """
    is_cut_short = (
        probe_name(opened.container.format.name) == "mp4" and opened.stream.codec_context.name in _PADDED_CODECS
    )
    return whole_source_samples(opened) if is_cut_short and opened.has_true_length else None


def whole_source_samples(opened: OpenedAudio) -> int | None:
    """The number of samples of the stream's duration; None without one."""
    duration_s = _stream_duration_s(opened)
    return None if duration_s is None else round(duration_s * opened.first_frames[0].sample_rate)


def counted_length_s(opened: OpenedAudio) -> Fraction:
    """The container's own length in seconds; 0 when it has none, or an impossible one."""
    return _possible(_said_length_s(opened))


def _said_length_s(opened: OpenedAudio) -> Fraction:
    container_name = opened.container.format.name
    duration_s = _stream_duration_s(opened)
    if duration_s is None:
        container_duration = opened.container.duration
        if container_duration is None or container_duration <= 0:
            return Fraction(0)
        duration_s = Fraction(container_duration, _CONTAINER_CLOCK_HZ)
        if "matroska" in container_name:
            # Matroska's duration includes the dropped samples at the beginning.
            duration_s -= Fraction(_opus_pre_skip(opened), _OPUS_RATE_HZ)
    elif container_name == "ogg":
        # libav counts from timestamp 0 to that of the last page, including Opus's pre-skip. Audio may begin before 0.
        first_timestamp = opened.first_frames[0].pts or 0
        duration_s -= first_timestamp * _time_base(opened) + Fraction(_opus_pre_skip(opened), _OPUS_RATE_HZ)
    elif container_name == "mpegts":
        # libav's duration lacks the last frame.
        first = opened.first_frames[0]
        duration_s += Fraction(first.samples, first.sample_rate)
    return duration_s


def length_s_by_bit_rate(opened: OpenedAudio, sound_bytes: int | None) -> Fraction:
    """An estimate for MP3 and similar formats from servers without range requests, where libav gives no duration.

    `sound_bytes` may be what a server claims. 0 for a length that is impossible.
    """
    bit_rate = opened.container.bit_rate or opened.stream.codec_context.bit_rate or 0
    if sound_bytes is None or bit_rate <= 0 or opened.container.format.name not in formats.UNFRAMED_CONTAINERS:
        return Fraction(0)
    return _possible(Fraction(sound_bytes * 8, bit_rate))


def _possible(length_s: Fraction) -> Fraction:
    return length_s if 0 < length_s <= formats.MAX_LENGTH_S else Fraction(0)


def _stream_duration_s(opened: OpenedAudio) -> Fraction | None:
    duration = opened.stream.duration
    if duration is None or duration <= 0:
        return None
    duration_s = duration * _time_base(opened)
    is_mp4 = probe_name(opened.container.format.name) == "mp4"
    told = _ITUNES_SAMPLES.match(opened.container.metadata.get("iTunSMPB", "")) if is_mp4 else None
    if told is None:
        return duration_s
    before, after, samples = (int(digits, 16) for digits in told.groups())
    sample_rate_hz = opened.first_frames[0].sample_rate
    # A tag that was copied from another file does not add up.
    is_of_this = samples > 0 and before + samples + after == round(duration_s * sample_rate_hz)
    return Fraction(samples, sample_rate_hz) if is_of_this else duration_s


def _time_base(opened: OpenedAudio) -> Fraction:
    # PyAV 19 has its own rational type.
    time_base = opened.stream.time_base
    return Fraction(time_base.numerator, time_base.denominator) if time_base else Fraction(0)


def _opus_pre_skip(opened: OpenedAudio) -> int:
    head = OpusHead.of(opened.stream.codec_context)
    return 0 if head is None else head.pre_skip_samples


class FirstSound:
    """A reader that stores the first bytes after a file's tag while they pass."""

    def __init__(self, reader: MediaReader, tag_bytes: int) -> None:
        self._reader = reader
        self._at = tag_bytes
        self._position = 0
        self.head = b""

    def read(self, n: int) -> bytes:
        if len(self.head) >= _HEAD_BYTES:
            return self._reader.read(n)
        start, data = self._position, self._reader.read(n)
        self._position += len(data)
        while len(self.head) < _HEAD_BYTES and start <= (wanted := self._at + len(self.head)) < start + len(data):
            self.head += data[wanted - start : self._at + _HEAD_BYTES - start]
            if tag_bytes := id3_tag_bytes(self.head):  # another tag after the first one
                self._at += tag_bytes
                self.head = b""
        return data

    def seek(self, offset: int) -> int:
        self._position = self._reader.seek(offset)
        return self._position

    def seekable(self) -> bool:
        return self._reader.seekable()


def is_length_exact(opened: OpenedAudio, first_sound: bytes) -> bool:
    """Whether libav's length is a count of the audio's samples. `first_sound`: the first bytes after a tag."""
    container = probe_name(opened.container.format.name)
    if container == "mp3":
        # libav estimates the length of a file that is much larger than its first frame says, such as a podcast behind
        # an advertisement.
        counted_s = Fraction(counted_samples(first_sound), opened.first_frames[0].sample_rate)
        return counted_s > 0 and abs(counted_s - (_stream_duration_s(opened) or 0)) < _MOST_PADDING_S
    # A container's own duration is that of its longest stream, which may be a picture or a film.
    return container in _COUNTING_CONTAINERS and (bool(opened.stream.duration) or len(opened.container.streams) == 1)


def is_length_guess(opened: OpenedAudio) -> bool:
    """Whether libav takes the bit rate of the first frames for that of the whole file, although the frames differ in
    size: the length may be wrong by half. Only for a length that is not exact."""
    sizes = [packet.size for packet in opened.first_packets]
    is_by_bit_rate = opened.container.format.name in formats.UNFRAMED_CONTAINERS
    return is_by_bit_rate and max(sizes, default=0) - min(sizes, default=0) > _MOST_FRAME_PADDING_BYTES


def constant_rate_bytes(head: bytes) -> int:
    """The size of an MP3 of constant bit rate that begins with these bytes, by LAME's header; 0 without that header."""
    at = head.find(b"Info", 0, _MOST_BEFORE_INFO_BYTES)
    has_both = at >= 0 and len(head) >= at + 16 and head[at + 7] & 3 == _COUNTS_FRAMES | _COUNTS_BYTES
    return int.from_bytes(head[at + 12 : at + 16], "big") if has_both else 0


def counted_samples(head: bytes) -> int:
    """The samples of an MP3 that begins with these bytes, by the header in its first frame; 0 where it counts none.

    The header of Xing and LAME comes after the frame's 4 bytes and its side information (ISO 11172-3, 2.4.1.7).
    """
    if len(head) < _HEAD_BYTES or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return 0
    is_mpeg_1 = head[1] >> 3 & 3 == 3
    is_mono = head[3] >> 6 == 3
    side_bytes = (17 if is_mono else 32) if is_mpeg_1 else (9 if is_mono else 17)
    xing = head[4 + side_bytes :]
    if xing[:4] in (b"Xing", b"Info") and xing[7] & _COUNTS_FRAMES:
        count = xing[8:12]
    elif head[_VBRI_OFFSET:].startswith(b"VBRI"):
        count = head[_VBRI_OFFSET + 14 : _VBRI_OFFSET + 18]
    else:
        return 0
    return int.from_bytes(count, "big") * (1152 if is_mpeg_1 else 576)

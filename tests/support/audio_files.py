"""Real audio files, made on the fly: signals as arrays, and the bytes of files in many formats that hold them.

A signal is a float64 array of shape (samples, channels), full scale at 1.0.
"""

import io
import struct
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import av
import numpy as np
import numpy.typing as npt
from av.audio.stream import AudioStream
from av.stream import Disposition
from av.video.stream import VideoStream

from tests.support.kept_audio import kept
from tests.support.pieces import Mp4, box, boxes

Signal = npt.NDArray[np.float64]


def tone(
    frequency_hz: float, seconds: float = 1.0, rate_hz: int = 48_000, *, channels: int = 2, level: float = 0.5
) -> Signal:
    """A sine, the same in every channel."""
    time = np.arange(round(seconds * rate_hz)) / rate_hz
    return np.repeat((level * np.sin(2 * np.pi * frequency_hz * time))[:, None], channels, axis=1)


def music(
    seconds: float = 1.0, rate_hz: int = 48_000, *, channels: int = 2, level: float = 0.5, seed: int = 1
) -> Signal:
    """Drifting tones below 5 kHz, different in each channel: nowhere the same twice, so that a comparison also finds a
    shift, and kept by lossy codecs and resampling. The same sound at every rate from 16 kHz up. Fades in and out.
    Made once, so it cannot be written to."""
    return _music(seconds, rate_hz, channels, level, seed)


@lru_cache(maxsize=32)
def _music(*what: Any) -> Signal:
    _, _, channels, _, _ = what
    made = kept(lambda: _made_music(*what).tobytes(), "music", *what)
    return np.frombuffer(made, dtype=np.float64).reshape(-1, channels)


def _made_music(seconds: float, rate_hz: int, channels: int, level: float, seed: int) -> Signal:
    random = np.random.default_rng(seed)
    time = np.arange(round(seconds * rate_hz)) / rate_hz
    signal = np.zeros((len(time), channels))
    loudness = np.zeros(channels)
    top_hz = min(5000.0, rate_hz * 0.35)
    for channel in range(channels):
        for _ in range(6):
            start_hz, drift_hz = random.uniform(100, top_hz * 0.8), random.uniform(-60, 60)
            phase, strength = random.uniform(0, 2 * np.pi), random.uniform(0.3, 1.0)
            signal[:, channel] += strength * np.sin(2 * np.pi * (start_hz + drift_hz * time / 2) * time + phase)
            loudness[channel] += strength
    fade = np.clip(np.minimum(time, seconds - time) / 0.02, 0, 1)
    return np.asarray(signal / loudness * level * (np.sin(fade * np.pi / 2) ** 2)[:, None])


def s16(signal: Signal) -> npt.NDArray[np.int16]:
    return np.clip(np.round(signal * 32768), -32768, 32767).astype(np.int16)


def pcm_of(signal: Signal) -> bytes:
    """The node's own PCM of a stereo signal at 48 kHz."""
    return s16(signal).tobytes()


def wav(signal: Signal, rate_hz: int = 48_000, *, coding: str = "s16", data_bytes: int | None = None) -> bytes:
    """A RIFF WAVE file. `coding`: u8, s16, s24, s32, f32, f64, mulaw. `data_bytes` overrides the size in its header."""
    if coding != "s16":
        ending = "" if coding in ("u8", "mulaw") else "le"
        return encoded("wav", f"pcm_{coding}{ending}", signal, rate_hz)
    data, channels = s16(signal).tobytes(), signal.shape[1]
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, channels, rate_hz, rate_hz * channels * 2, channels * 2, 16)
    size = len(data) if data_bytes is None else data_bytes
    body = b"WAVE" + form + b"data" + struct.pack("<I", size) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def encoded(
    container: str,
    codec: str,
    signal: Signal,
    rate_hz: int = 48_000,
    *,
    bit_rate: int | None = None,
    sample_format: str | None = None,
    layout: str | None = None,
    tags: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    codec_options: Mapping[str, str] | None = None,
    with_video: bool = False,
) -> bytes:
    """`signal` as a file: `container` and `codec` are libav's names, such as ("mp3", "libmp3lame"), ("mp4", "aac"),
    ("flac", "flac"), ("ogg", "libopus"), ("webm", "libopus"), ("aiff", "pcm_s16be"), ("mpegts", "aac")."""
    options = dict(options or {})
    sound = Sound(signal, codec, "", None, rate_hz, bit_rate, sample_format, layout, dict(codec_options or {}))
    what = container, sound[1:], options, tags, with_video, signal.shape
    return kept(lambda: _encoded(container, [sound], options, tags, with_video), what, signal.tobytes())


class Sound(NamedTuple):
    """One of several sounds in a file. `is_default` is what it is marked as, None what libav makes of it."""

    signal: Signal
    codec: str = "aac"
    language: str = ""
    is_default: bool | None = False
    rate_hz: int = 48_000
    bit_rate: int | None = None
    sample_format: str | None = None
    layout: str | None = None
    options: Mapping[str, str] = MappingProxyType({})


def several_sounds(container: str, *sounds: Sound, with_video: bool = False) -> bytes:
    """A file with these sounds, in this order, each marked as the default only where that is said."""
    options = {"default_mode": "passthrough"} if container == "matroska" else {}
    return _encoded(container, sounds, options, None, with_video)


def _encoded(
    container: str, sounds: Sequence[Sound], options: dict[str, str], tags: Mapping[str, str] | None, with_video: bool
) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format=container, options=options) as output:
        output.metadata.update(tags or {})
        video = _add_video(output) if with_video else None
        streams = [_add_audio(output, sound) for sound in sounds]
        if video is not None:
            lengths_s = [len(sound.signal) / sound.rate_hz for sound in sounds]
            _encode_video(output, video, max(lengths_s, default=1.0))
        for stream, sound in zip(streams, sounds, strict=True):
            _encode_audio(output, stream, sound.signal, sound.rate_hz)
    return file.getvalue()


def _add_audio(output: Any, sound: Sound) -> AudioStream:
    stream = output.add_stream(sound.codec, rate=sound.rate_hz, options=dict(sound.options))
    assert isinstance(stream, AudioStream)
    context = stream.codec_context
    context.layout = sound.layout or _LAYOUTS[sound.signal.shape[1] - 1]
    context.format = sound.sample_format or _encoder_format(sound.codec)
    if sound.bit_rate is not None:
        context.bit_rate = sound.bit_rate
    if sound.is_default is not None:
        stream.disposition = Disposition.default if sound.is_default else Disposition(0)
    if sound.language:
        stream.metadata["language"] = sound.language
    return stream


def mp3(signal: Signal, rate_hz: int = 44_100, *, bit_rate: int | None = 192_000, **more: Any) -> bytes:
    return encoded("mp3", "libmp3lame", signal, rate_hz, bit_rate=bit_rate, **more)


def variable_mp3(signal: Signal, rate_hz: int = 44_100, **more: Any) -> bytes:
    """An MP3 of variable bit rate."""
    quality = {"flags": "+qscale", "global_quality": str(2 * 118)}  # LAME's V2, in libav's units
    return mp3(signal, rate_hz, bit_rate=None, codec_options=quality, **more)


def live_mp3(signal: Signal) -> bytes:
    """As stations send it: 128 kbit/s, 44.1 kHz, without a head that tells a length."""
    return mp3(signal, bit_rate=128_000, options={"write_xing": "0", "id3v2_version": "0"})


def flac(signal: Signal, rate_hz: int = 48_000, **more: Any) -> bytes:
    return encoded("flac", "flac", signal, rate_hz, **more)


def opus(signal: Signal, *, container: str = "ogg", bit_rate: int = 160_000, **more: Any) -> bytes:
    return encoded(container, "libopus", signal, 48_000, bit_rate=bit_rate, **more)


def vorbis(signal: Signal, rate_hz: int = 44_100, **more: Any) -> bytes:
    """By libav's own encoder, which is rough: for frequency and length, not for quality."""
    return encoded("ogg", "vorbis", signal, rate_hz, bit_rate=256_000, codec_options={"strict": "experimental"}, **more)


def m4a(signal: Signal, rate_hz: int = 44_100, *, codec: str = "aac", index_first: bool = True, **more: Any) -> bytes:
    bit_rate = 192_000 if codec == "aac" else None
    options = {"moov_size": str(10_000 + len(signal) // 40)} if index_first else {}  # kept for it in front
    return encoded("mp4", codec, signal, rate_hz, bit_rate=bit_rate, options=options, **more)


def itunes_m4a(signal: Signal, rate_hz: int = 44_100, **more: Any) -> bytes:
    """An M4A as iTunes writes it: a tag tells the encoder's delay and filling, and there is no edit list."""
    frame = 1024
    mp4 = Mp4(m4a(signal, rate_hz, index_first=False, **more))
    mp4[b"trak"].inside.remove(mp4[b"edts"])
    packets = sum(count for count, _ in struct.iter_unpack(">II", mp4[b"stts"].body[8:]))
    mp4[b"stts"].body = bytearray(struct.pack(">IIII", 0, 1, packets, frame))
    mp4[b"mdhd"].body[16:20] = (packets * frame).to_bytes(4, "big")
    filling = packets * frame - frame - len(signal)
    told = f" {0:08X} {frame:08X} {filling:08X} {len(signal):016X}" + f" {0:08X}" * 8
    parts = (b"mean", bytes(4) + b"com.apple.iTunes"), (b"name", bytes(4) + b"iTunSMPB")
    data = box(b"data", struct.pack(">II", 1, 0), told.encode())
    return mp4.with_tags(box(b"----", *(box(*part) for part in parts), data))


def video_without_sound() -> bytes:
    return _encoded("mp4", [], {}, None, with_video=True)


_LAYOUTS = ("mono", "stereo", "3.0", "4.0", "5.0", "5.1", "6.1", "7.1")


def _encoder_format(codec: str) -> str:
    formats = av.Codec(codec, "w").audio_formats
    names = [sample_format.name for sample_format in formats or []]
    return next((name for name in ("s16", "s16p", "fltp", "flt", "s32", "s32p") if name in names), names[0])


def _encode_audio(output: Any, stream: AudioStream, signal: Signal, rate_hz: int) -> None:
    block_samples = stream.codec_context.frame_size or 1024
    layout, sample_format = stream.codec_context.layout, stream.codec_context.format
    for start in range(0, len(signal), block_samples):
        block = signal[start : start + block_samples]
        array = _as_format(block, sample_format.packed.name)
        planes = array.T if sample_format.is_planar else array.reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(planes), format=sample_format.name, layout=layout.name)
        frame.sample_rate, frame.pts, frame.time_base = rate_hz, start, Fraction(1, rate_hz)
        output.mux(stream.encode(frame))
    output.mux(stream.encode(None))


def _as_format(block: Signal, packed_format: str) -> npt.NDArray[Any]:
    if packed_format == "s16":
        return s16(block)
    if packed_format == "s32":
        return np.clip(np.round(block * 2.0**31), -(2.0**31), 2.0**31 - 256).astype(np.int32)
    if packed_format == "u8":
        return np.clip(np.round(block * 128) + 128, 0, 255).astype(np.uint8)
    return block.astype({"flt": np.float32, "dbl": np.float64}[packed_format])


def _add_video(output: Any) -> VideoStream:
    video = output.add_stream("mpeg4", rate=10)
    assert isinstance(video, VideoStream)
    video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
    return video


def _encode_video(output: Any, video: VideoStream, seconds: float) -> None:
    for index in range(max(1, round(seconds * 10))):
        picture = np.full((48, 64, 3), index * 7 % 256, np.uint8)
        frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
        frame.pts, frame.time_base = index, Fraction(1, 10)
        output.mux(video.encode(frame))
    output.mux(video.encode(None))


def id3(*, texts: Mapping[str, bytes], picture: bytes = b"") -> bytes:
    """An ID3v2.3 tag to put before an MP3. `texts`: frame name to its body (an encoding byte, then the text)."""
    frames = b"".join(_id3_frame(name.encode(), body) for name, body in texts.items())
    if picture:
        frames += _id3_frame(b"APIC", b"\x00image/png\x00\x03\x00" + picture)
    return b"ID3\x03\x00\x00" + synchsafe(len(frames)) + frames


def synchsafe(size: int) -> bytes:
    """The size in an ID3v2 header: four times seven bits."""
    return bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0))


def _id3_frame(name: bytes, body: bytes) -> bytes:
    return name + struct.pack(">IH", len(body), 0) + body


def long_book(hours: int, *, index_first: bool) -> bytes:
    """An audio book: MP4 of AAC at 44.1 kHz, silent but for a minute at the start of the first, the middle and the last
    hour, in which hour n has a tone of 300 + 20 n Hz. It is not encoded whole: frames are there again and again."""
    rate_hz, frame = 44_100, 1024
    count = round(hours * 3600 * rate_hz / frame)
    silence = _book_frames(0.0)
    sizes = np.full(count, len(silence[0]), np.uint32)
    parts: list[bytes] = []
    at = 0
    loud = round(60 * rate_hz / frame)
    for hour in (0, hours // 2, hours - 1):
        start = round(hour * 3600 * rate_hz / frame)
        frames = _book_frames(300.0 + 20 * hour)
        turns = -(-loud // len(frames))
        parts += [silence[0] * (start - at), b"".join((frames * turns)[:loud])]
        sizes[start : start + loud] = np.tile(np.array([len(one) for one in frames], np.uint32), turns)[:loud]
        at = start + loud
    mp4 = Mp4(m4a(tone(300, 0.5, rate_hz, channels=1), rate_hz, index_first=False))
    per_chunk, length_ms = 43, round(count * frame / rate_hz * 1000)
    firsts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])[:-1][::per_chunk]
    chunks = [(1, per_chunk, 1)] + ([(len(firsts), count % per_chunk, 1)] if count % per_chunk else [])
    tables = {
        b"stsd": bytes(mp4[b"stsd"].body),
        b"stts": struct.pack(">IIII", 0, 1, count, frame),
        b"stsc": struct.pack(">II", 0, len(chunks)) + b"".join(struct.pack(">III", *chunk) for chunk in chunks),
        b"stsz": struct.pack(">III", 0, 0, count) + sizes.astype(">u4").tobytes(),
    }
    mp4[b"mvhd"].body[12:20] = struct.pack(">II", 1000, length_ms)
    mp4[b"tkhd"].body[20:24] = length_ms.to_bytes(4, "big")
    mp4[b"mdhd"].body[:] = struct.pack(">IQQIQI", 1 << 24, 0, 0, rate_hz, count * frame, 0x55C40000)
    mp4[b"elst"].body[:] = struct.pack(">IIIiI", 0, 1, length_ms, frame, 1 << 16)

    def index(data_at: int) -> bytes:
        tables[b"stco"] = struct.pack(">II", 0, len(firsts)) + (firsts + data_at).astype(">u4").tobytes()
        mp4[b"stbl"].inside = list(boxes(b"".join(box(*table) for table in tables.items())))
        return mp4[b"moov"].to_bytes()

    kind = box(b"ftyp", b"M4B \0\0\0\0isomM4B ")
    data = b"".join(parts) + silence[0] * (count - at)
    if not index_first:
        return kind + box(b"mdat", data) + index(len(kind) + 8)
    return kind + index(len(kind) + len(index(0)) + 8) + box(b"mdat", data)


@lru_cache(maxsize=64)
def _book_frames(frequency_hz: float) -> list[bytes]:
    """AAC frames from the middle of a tone, or of silence for 0."""
    signal = tone(frequency_hz, 1.5, 44_100, channels=1, level=0.5 if frequency_hz else 0.0)
    file = encoded("mp4", "aac", signal, 44_100, bit_rate=16_000)
    with av.open(io.BytesIO(file), "r") as opened:
        return [bytes(packet) for packet in opened.demux(audio=0) if packet.size][10:-10]

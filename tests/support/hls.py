"""HLS streams made on the fly: sound cut into segments of each kind, and the playlists that name them."""

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.support.audio_files import Signal, encoded, synchsafe
from tests.support.media_server import Answer, MediaServer, Reply, Request, media
from tonearm.sources.hls.decryption import libavutil

SEGMENT_SECONDS = 0.5
_TS_PACKET_BYTES = 188


@dataclass(frozen=True)
class Cut:
    """A sound in pieces. `init` is what an fMP4 demuxer needs before the first of them; `ending` is of their names."""

    ending: str
    segments: tuple[bytes, ...]
    init: bytes | None = None

    @property
    def whole(self) -> bytes:
        """What a demuxer shall get."""
        skipped = len(timestamp(0)) if self.ending in ("aac", "mp3") else 0
        return (self.init or b"") + b"".join(segment[skipped:] for segment in self.segments)


def ts(signal: Signal, count: int, rate_hz: int = 48_000) -> Cut:
    """MPEG transport stream, each segment beginning with the tables."""
    whole = encoded("mpegts", "aac", signal, rate_hz, options={"pat_period": "0.1"})
    packets = [whole[at : at + _TS_PACKET_BYTES] for at in range(0, len(whole), _TS_PACKET_BYTES)]
    tables = [number for number, packet in enumerate(packets) if packet[1] & 0x1F == 0 and packet[2] == 0]
    cuts = [tables[len(tables) * number // count] for number in range(count)]
    ends = [*cuts[1:], len(packets)]
    return Cut("ts", tuple(b"".join(packets[start:end]) for start, end in zip([0, *cuts[1:]], ends, strict=True)))


def packed_aac(signal: Signal, count: int) -> Cut:
    """ADTS frames, in each segment behind a timestamp."""
    whole = encoded("adts", "aac", signal)
    frames = []
    while whole:
        size = (whole[3] & 3) << 11 | whole[4] << 3 | whole[5] >> 5
        frames.append(whole[:size])
        whole = whole[size:]
    return Cut("aac", tuple(timestamp(number) + b"".join(part) for number, part in enumerate(_parts(frames, count))))


def packed_mp3(signal: Signal, count: int) -> Cut:
    """MP3 frames of 384 bytes, in each segment behind a timestamp."""
    options = {"id3v2_version": "0", "write_xing": "0"}
    whole = encoded("mp3", "libmp3lame", signal, bit_rate=128_000, options=options)
    frames = [whole[at : at + 384] for at in range(0, len(whole), 384)]
    return Cut("mp3", tuple(timestamp(number) + b"".join(part) for number, part in enumerate(_parts(frames, count))))


def fmp4(signal: Signal, count: int, rate_hz: int = 48_000, codec: str = "aac") -> Cut:
    """MP4 in fragments of a twentieth of a second."""
    options = {"movflags": "empty_moov+default_base_moof+dash", "frag_duration": "50000"}
    whole = encoded("mp4", codec, signal, rate_hz, options=options)
    init, fragments = b"", [b""]
    while whole:
        size, kind = struct.unpack_from(">I4s", whole)
        if kind in (b"ftyp", b"moov"):
            init += whole[:size]
        elif kind != b"mfra":
            fragments[-1] += whole[:size]
            if kind == b"mdat":
                fragments.append(b"")
        whole = whole[size:]
    return Cut("m4s", tuple(b"".join(part) for part in _parts(fragments[:-1], count)), init)


def timestamp(number: int) -> bytes:
    """The tag before packed audio (RFC 8216, 3.4)."""
    frame = b"com.apple.streaming.transportStreamTimestamp\0" + struct.pack(">Q", number * 45_000)
    body = b"PRIV" + synchsafe(len(frame)) + b"\0\0" + frame
    return b"ID3\x04\0\0" + synchsafe(len(body)) + body


def media_playlist(
    entries: Sequence[str], *, sequence: int = 0, is_complete: bool = True, duration_s: float = SEGMENT_SECONDS
) -> str:
    """`entries` are URIs, or whole lines of tags that stand before the next URI."""
    lines = ["#EXTM3U", "#EXT-X-VERSION:7", f"#EXT-X-TARGETDURATION:{duration_s}", f"#EXT-X-MEDIA-SEQUENCE:{sequence}"]
    for entry in entries:
        lines += [entry] if entry.startswith("#") else [f"#EXTINF:{duration_s},", entry]
    return "\n".join([*lines, *(["#EXT-X-ENDLIST"] if is_complete else []), ""])


def encrypted(plain: bytes, key: bytes, iv: bytes) -> bytes:
    """`plain` in AES-128, by the same library's other direction: a vector of NIST is among the tests."""
    library = libavutil()
    count = len(plain) // 16 + 1
    padding = count * 16 - len(plain)
    cipher = library.av_aes_alloc()
    library.av_aes_init(cipher, key, 128, 0)
    found = ctypes.create_string_buffer(count * 16)
    library.av_aes_crypt(cipher, found, plain + bytes([padding]) * padding, count, ctypes.create_string_buffer(iv), 0)
    library.av_free(cipher)
    return found.raw


def serve_text(server: MediaServer, path: str, text: str, content_type: str = "application/vnd.apple.mpegurl") -> str:
    return server.serve(path, media(text.encode(), content_type=content_type))


def serve_cut(server: MediaServer, cut: Cut, folder: str = "/hls") -> list[str]:
    """Serves the segments; returns the lines for a playlist in `folder`, with the map when there is one."""
    lines = []
    if cut.init is not None:
        server.serve(f"{folder}/init.mp4", media(cut.init, content_type="video/mp4"))
        lines.append('#EXT-X-MAP:URI="init.mp4"')
    for number, segment in enumerate(cut.segments):
        server.serve(f"{folder}/{number}.{cut.ending}", media(segment, content_type="video/mp2t"))
        lines.append(f"{number}.{cut.ending}")
    return lines


@dataclass
class LivePlaylist:
    """A live stream whose time is the asking: with each request another segment is there, and the oldest is gone.

    `told` counts the requests that were answered.
    """

    segments: Sequence[str]
    window: int = 4
    duration_s: float = 0.02
    ends: bool = True
    told: int = 0
    tags: dict[int, str] = field(default_factory=dict)  # by segment, before it
    fault: Callable[[int], Answer | None] = lambda _: None  # another answer to the request with this number

    async def answer(self, request: Request, reply: Reply) -> None:
        number, self.told = self.told, self.told + 1
        other = self.fault(number)
        if other is not None:
            await other(request, reply)
            return
        end = min(self.window + number, len(self.segments))
        start = max(end - self.window, 0)
        entries = []
        for place in range(start, end):
            entries += [self.tags[place]] if place in self.tags else []
            entries.append(self.segments[place])
        text = media_playlist(
            entries, sequence=start, is_complete=self.ends and end == len(self.segments), duration_s=self.duration_s
        )
        await media(text.encode(), etag=f'"{end}"', content_type="audio/mpegurl")(request, reply)


def _parts(frames: list[bytes], count: int) -> list[list[bytes]]:
    return [frames[len(frames) * part // count : len(frames) * (part + 1) // count] for part in range(count)]

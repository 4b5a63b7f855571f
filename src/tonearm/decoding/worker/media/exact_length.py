"""Whether a source's length is known to the sample, or only guessed from its size and bit rate."""

from typing import Final

from tonearm.core.id3 import id3_tag_bytes
from tonearm.decoding.worker.media.formats import probe_name
from tonearm.decoding.worker.media.opening import OpenedAudio
from tonearm.decoding.worker.reading.reader import MediaReader

# Their headers count the samples, or their last packet says where it lies.
_COUNTING_CONTAINERS: Final = frozenset(
    {"aiff", "au", "caf", "flac", "matroska/webm", "mp4", "ogg", "w64", "wav", "wv"}
)

_HEAD_BYTES: Final = 256  # of an MP3's first frame: enough for everything up to the count
_VBRI_OFFSET: Final = 36  # Fraunhofer's header lies behind 32 bytes of side information, whatever the frame has
_COUNTS_FRAMES: Final = 1  # a flag in Xing's header: the number of frames follows


class FirstSound:
    """A reader that remembers the first bytes behind the tag of a file while they pass."""

    def __init__(self, reader: MediaReader, tag_bytes: int) -> None:
        self._reader = reader
        self._at = tag_bytes
        self.head = b""

    def read(self, n: int) -> bytes:
        if len(self.head) >= _HEAD_BYTES:
            return self._reader.read(n)
        start = self._reader.tell()
        data = self._reader.read(n)
        while len(self.head) < _HEAD_BYTES and start <= (wanted := self._at + len(self.head)) < start + len(data):
            self.head += data[wanted - start : self._at + _HEAD_BYTES - start]
            if tag_bytes := id3_tag_bytes(self.head):  # another tag behind the first one
                self._at += tag_bytes
                self.head = b""
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._reader.seek(offset, whence)

    def tell(self) -> int:
        return self._reader.tell()

    def seekable(self) -> bool:
        return self._reader.seekable()


def is_length_exact(opened: OpenedAudio, first_sound: bytes) -> bool:
    """Whether the length that libav gives counts the samples of the audio. `first_sound`: the bytes behind a tag."""
    container = probe_name(opened.container.format.name)
    if container == "mp3":
        return has_frame_count(first_sound)
    # A container's own duration is that of its longest stream, which may be a picture's or a film's.
    return container in _COUNTING_CONTAINERS and (bool(opened.stream.duration) or len(opened.container.streams) == 1)


def has_frame_count(head: bytes) -> bool:
    """Whether an MP3 that begins with these bytes has a header in its first frame that counts its frames.

    The header of Xing and LAME lies behind the frame's 4 bytes and its side information (ISO 11172-3, 2.4.1.7).
    """
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return False
    is_mpeg_1 = head[1] >> 3 & 3 == 3
    is_mono = head[3] >> 6 == 3
    side_bytes = (17 if is_mono else 32) if is_mpeg_1 else (9 if is_mono else 17)
    xing = head[4 + side_bytes : 4 + side_bytes + 8]
    if xing[:4] in (b"Xing", b"Info"):
        return len(xing) == 8 and bool(xing[7] & _COUNTS_FRAMES)
    return head[_VBRI_OFFSET : _VBRI_OFFSET + 4] == b"VBRI"

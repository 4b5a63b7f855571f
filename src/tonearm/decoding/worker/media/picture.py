"""The picture inside of an audio file. It is only passed on: nobody here decodes it."""

from typing import Final

from av.container import InputContainer
from av.stream import Disposition
from av.video.stream import VideoStream

from tonearm.core.picture import MAX_PICTURE_BYTES
from tonearm.decoding.worker.media.opening import open_container
from tonearm.decoding.worker.reading import play_errors
from tonearm.decoding.worker.reading.guarded_reader import GuardedReader
from tonearm.decoding.worker.reading.reader import MediaReader

_TOO_LARGE: Final = f"the picture in it has more than {MAX_PICTURE_BYTES // (1024 * 1024)} MiB"


def has_picture(container: InputContainer) -> bool:
    """Whether there is one. libav makes a video stream of it that has a single packet."""
    return _picture_stream(container) is not None


def read_picture(reader: MediaReader, *, name: str, content_type: str | None, size_bytes: int | None) -> bytes:
    """The first picture; `b""` when there is none. Reads as much as opening the audio may. Raises PlayError."""
    guard = GuardedReader(reader, name=name, size_bytes=size_bytes)
    container = open_container(guard, name, content_type)
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
            raise play_errors.limit_exceeded(name, _TOO_LARGE)
        return bytes(packet)
    finally:
        container.close()


def _picture_stream(container: InputContainer) -> VideoStream | None:
    streams = (stream for stream in container.streams.video if stream.disposition & Disposition.attached_pic)
    return next(streams, None)

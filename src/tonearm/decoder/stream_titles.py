"""What an endless stream calls the sound, and from which sample on."""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from av.audio.stream import AudioStream
from av.packet import Packet

from tonearm.decoder.tags import Tags, read_tags

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

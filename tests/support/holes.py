"""Files with a hole in time: their timestamps jump ahead, as in a recording that has lost some of its pages."""

import io
from typing import Final

import av

from tonearm.core.ogg_page import OGG_CHECKSUM_AT, ogg_checksum

_GRANULE: Final = slice(6, 14)  # of a page (RFC 3533, section 6)


def with_later_timestamps(file: bytes, container: str, from_s: float, later_s: float, **options: str) -> bytes:
    """The same packets in this container; those from `from_s` on have timestamps that are so much later."""
    made = io.BytesIO()
    with av.open(io.BytesIO(file), "r") as source, av.open(made, "w", format=container, options=options) as target:
        stream = source.streams.audio[0]
        copied = target.add_stream_from_template(stream)
        for packet in source.demux(stream):
            if packet.pts is None or packet.dts is None:
                continue
            if packet.pts * packet.time_base >= from_s:
                ticks = round(later_s / packet.time_base)
                packet.pts, packet.dts = packet.pts + ticks, packet.dts + ticks
            packet.stream = copied
            target.mux(packet)
    return made.getvalue()


def with_later_pages(ogg: bytes, after: int, later: int) -> bytes:
    """An Ogg file in which the granules behind the sample `after` are so many samples later."""
    pages = []
    for rest in ogg.split(b"OggS")[1:]:
        page = bytearray(b"OggS" + rest)
        granule = int.from_bytes(page[_GRANULE], "little")
        if granule > after:
            page[_GRANULE] = (granule + later).to_bytes(8, "little")
            page[OGG_CHECKSUM_AT : OGG_CHECKSUM_AT + 4] = bytes(4)
            page[OGG_CHECKSUM_AT : OGG_CHECKSUM_AT + 4] = ogg_checksum(page)
        pages.append(page)
    return b"".join(pages)


def without_frames(flac: bytes, first: int, last: int) -> bytes:
    """A FLAC file without these frames."""
    with av.open(io.BytesIO(flac), "r") as source:
        frames = [bytes(packet) for packet in source.demux(audio=0) if packet.size]
    return b"".join((flac[: flac.index(frames[0])], *frames[:first], *frames[last:]))

"""Vorbis in Ogg with blocks of two lengths. libav's encoder has both and makes long ones only: here short ones are put
between them.

The sound is that of libav's encoder with holes, in which the long blocks around fade. Vorbis I specification, sections
4.2 and 4.3; its bits begin with the lowest of the first byte.
"""

import io
import random
import struct
from collections.abc import Iterator
from typing import Final

import av

from tests.support.audio_files import Signal, vorbis
from tonearm.core.file_formats import PageHead, ogg_page

_SHORT_BITS: Final = 8  # 256 samples
_LONG_BITS: Final = 11  # as those of libav's encoder
_BLOCK_SIZES_AT: Final = 28
# Mode 0, and nothing in either channel: the residue of libav's encoder would not fit.
_SILENT_SHORT_PACKET: Final = b"\0"
_FIRST, _LAST = 2, 4


def vorbis_with_short_blocks(signal: Signal) -> bytes:
    """Of a signal at 44.1 kHz. One to three short blocks after every third long one or so; 5 to 20 packets a page."""
    dice = random.Random(1)
    identification, comments, setup, *packets = _packets(vorbis(signal))
    blocks: list[bytes | None] = []  # None: a short one
    for packet in packets:
        blocks.append(packet)
        if dice.random() < 0.3:
            blocks += [None] * dice.randint(1, 3)
    sizes = [_LONG_BITS if block is not None else _SHORT_BITS for block in blocks]
    heads = [_with_two_sizes(identification)], [comments, setup]
    pages = [_page(number, 0, _FIRST if not number else 0, head) for number, head in enumerate(heads)]
    granule, at = 0, 0
    while at < len(blocks):
        end = min(at + dice.randint(5, 20), len(blocks))
        granule += sum(((1 << sizes[index - 1]) + (1 << sizes[index])) // 4 for index in range(max(at, 1), end))
        body = [_packet(blocks, index) for index in range(at, end)]
        pages.append(_page(len(pages), granule, _LAST if end == len(blocks) else 0, body))
        at = end
    return b"".join(pages)


def in_webm(file: bytes) -> bytes:
    """A Vorbis file in WebM, whose clock counts milliseconds."""
    made = io.BytesIO()
    with av.open(io.BytesIO(file), "r") as source, av.open(made, "w", format="webm") as output:
        stream = output.add_stream_from_template(source.streams.audio[0])
        at = 0
        for packet in source.demux(source.streams.audio[0]):
            frames = packet.decode()
            packet.pts = packet.dts = at  # libav's own are late where a short block follows a long one
            at += sum(frame.samples for frame in frames)
            packet.stream = stream
            if packet.size:
                output.mux(packet)
    return made.getvalue()


def _packet(blocks: list[bytes | None], index: int) -> bytes:
    """A packet of a long block: 0, its mode, whether the blocks before and behind are long, and the sound."""
    block = blocks[index]
    if block is None:
        return _SILENT_SHORT_PACKET
    is_long_before = not index or blocks[index - 1] is not None
    is_long_behind = index + 1 == len(blocks) or blocks[index + 1] is not None
    assert block[0] & 0b1111 == 0b1110, "libav's encoder makes other blocks than long ones"
    return bytes((block[0] & 0b11110011 | is_long_before << 2 | is_long_behind << 3,)) + block[1:]


def _with_two_sizes(identification: bytes) -> bytes:
    sizes = bytes((_LONG_BITS << 4 | _SHORT_BITS,))
    return identification[:_BLOCK_SIZES_AT] + sizes + identification[_BLOCK_SIZES_AT + 1 :]


def _packets(file: bytes) -> Iterator[bytes]:
    at, packet = 0, b""
    while at < len(file):
        (segments,) = struct.unpack_from("<26xB", file, at)
        sizes = file[at + 27 : at + 27 + segments]
        at += 27 + segments
        for size in sizes:
            packet += file[at : at + size]
            at += size
            if size < 255:
                yield packet
                packet = b""


def _page(number: int, granule: int, flags: int, packets: list[bytes]) -> bytes:
    segments = b"".join(b"\xff" * (len(packet) // 255) + bytes((len(packet) % 255,)) for packet in packets)
    return ogg_page(PageHead(flags, granule, 7, number, segments), b"".join(packets))

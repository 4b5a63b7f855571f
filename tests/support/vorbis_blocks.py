"""Vorbis with blocks of two lengths. libav's encoder has both and makes long ones only: here short ones are put between
them.

The sound is that of libav's encoder with holes, in which the long blocks around fade. Vorbis I specification, sections
4.2 and 4.3; its bits begin with the lowest of the first byte.
"""

import io
import random
from fractions import Fraction
from typing import Final

import av

from tests.support.audio_files import Signal, vorbis
from tests.support.pieces import joined, ogg_pages

_SHORT_BITS, _LONG_BITS = 8, 11  # 256 samples, and as those of libav's encoder
_BLOCK_SIZES_AT: Final = 56  # in the first page
# Mode 0, and nothing in either channel: the residue of libav's encoder would not fit.
_SILENT_SHORT_PACKET: Final = b"\0"


def vorbis_with_short_blocks(signal: Signal, container: str = "ogg") -> bytes:
    """Of a signal at 44.1 kHz. One to three short blocks after every third long one or so; some packets a page."""
    dice, made, pages = random.Random(1), io.BytesIO(), ogg_pages(vorbis(signal))
    pages[0].body[_BLOCK_SIZES_AT] = _LONG_BITS << 4 | _SHORT_BITS
    options = {"page_duration": "200000"} if container == "ogg" else {}
    with (
        av.open(io.BytesIO(joined(pages)), "r") as source,
        av.open(made, "w", format=container, options=options) as output,
    ):
        stream = output.add_stream_from_template(source.streams.audio[0])
        blocks: list[bytes | None] = []  # None: a short one
        for long in source.demux(audio=0):
            if long.size:
                blocks += [bytes(long), *[None] * (dice.randint(1, 3) if dice.random() < 0.3 else 0)]
        sizes = [1 << (_SHORT_BITS if block is None else _LONG_BITS) for block in blocks]
        at = 0
        for index in range(len(blocks)):
            packet = av.Packet(_packet(blocks, index))
            packet.stream, packet.time_base, packet.pts, packet.dts = stream, Fraction(1, 44_100), at, at
            packet.duration = (sizes[index - 1] + sizes[index]) // 4 if index else 0
            at += packet.duration
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

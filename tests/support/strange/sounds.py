"""Real packets of every codec, by PyAV's encoders, to be put into containers that say strange things about them."""

import io
from functools import lru_cache
from typing import Final, NamedTuple

import av

from tests.support.audio_files import encoded, music
from tests.support.strange.dice import Dice

_OPUS_RATE_HZ: Final = 48_000
_SECONDS: Final = 2.0  # of each, of which files have some
_CELT_20_MS_STEREO: Final = b"\xfc"


class Packet(NamedTuple):
    """`samples` at the rate of its sound."""

    data: bytes
    samples: int


class Sound(NamedTuple):
    """The packets of one stream, with the header that its codec needs (`extradata`, as libav has it)."""

    codec: str
    rate_hz: int
    channels: int
    header: bytes
    packets: tuple[Packet, ...]

    @property
    def samples(self) -> int:
        return sum(packet.samples for packet in self.packets)

    def cut(self, dice: Dice) -> "Sound":
        """Some of its packets: a sound of another length, seldom a very short one."""
        least = 1 if dice.one_in(8) else len(self.packets) // 3
        return self._replace(packets=self.packets[: dice.randint(max(least, 1), len(self.packets))])


@lru_cache(maxsize=64)
def sound(
    container: str,
    codec: str,
    rate_hz: int = 48_000,
    channels: int = 2,
    bit_rate: int | None = None,
    options: tuple[tuple[str, str], ...] = (),
) -> Sound:
    """`container` and `codec` as in `audio_files.encoded`; only the packets are of interest."""
    signal = music(_SECONDS, rate_hz, channels=channels, seed=3)
    file = encoded(container, codec, signal, rate_hz, bit_rate=bit_rate, codec_options=dict(options))
    with av.open(io.BytesIO(file), "r") as opened:
        stream = opened.streams.audio[0]
        header = bytes(stream.codec_context.extradata or b"")
        packets = [
            Packet(bytes(packet), round((packet.duration or 0) * packet.time_base * rate_hz))
            for packet in opened.demux(stream)
            if packet.size
        ]
        return Sound(stream.codec_context.name, rate_hz, channels, header, tuple(packets))


# Opus

_OPUS_KINDS: Final = (
    # application, frame in ms, bits a second
    ("audio", "20", 128_000),
    ("audio", "20", 64_000),
    ("lowdelay", "20", 160_000),
    ("audio", "10", 128_000),
    ("audio", "5", 128_000),
    ("audio", "2.5", 128_000),
    ("audio", "40", 96_000),
    ("audio", "60", 96_000),
    ("voip", "20", 12_000),
    ("voip", "60", 16_000),
    ("voip", "20", 32_000),
)
_PASSED_KINDS: Final = 3  # of these, whose packets are passed through


def opus(dice: Dice, channels: int | None = None) -> Sound:
    """Packets of one kind; two of three times of one that can be passed through."""
    kinds = _OPUS_KINDS[:_PASSED_KINDS] if dice.randrange(3) else _OPUS_KINDS
    application, duration_ms, bit_rate = dice.choice(kinds)
    channels = channels or dice.choice((1, 2, 2, 2))
    options = (("application", application), ("frame_duration", duration_ms))
    return sound("ogg", "libopus", _OPUS_RATE_HZ, channels, bit_rate, options).cut(dice)


OPUS_ODDITIES: Final = ("packets of other kinds", "packets that are odd", "one packet again and again")


def strange_opus(dice: Dice, channels: int | None = None) -> Sound:
    """The same, with what `OPUS_ODDITIES` name."""
    made = opus(dice, channels)
    packets = list(made.packets)
    if dice.has("packets of other kinds"):
        for _ in range(dice.randint(1, 3)):
            at = dice.randint(0, len(packets))
            packets[at:at] = opus(dice, channels).packets[: dice.choice((1, 2, 20))]
    if dice.has("packets that are odd"):
        for _ in range(dice.randint(1, 6)):
            packets.insert(dice.randint(0, len(packets)), _odd_opus_packet(dice, made.packets))
    if dice.has("one packet again and again"):
        at = dice.randrange(len(packets))
        packets[at:at] = [packets[at]] * dice.choice((2, 60))
    return made._replace(packets=tuple(packets))


def _odd_opus_packet(dice: Dice, packets: tuple[Packet, ...]) -> Packet:
    """RFC 6716, section 3.2: some of them are right and seldom seen, others are not allowed."""
    one = dice.choice(packets)
    toc = one.data[0] & 0xFC
    body = one.data[1:]
    kind = dice.randrange(9)
    if kind == 0:
        return Packet(one.data[:1], one.samples)  # a frame that was not sent
    if kind == 1:
        return Packet(b"", 0)
    if kind == 2 and len(body) < 252:  # two frames of different lengths
        return Packet(bytes((toc | 2, len(body))) + body + body, 2 * one.samples)
    if kind == 3:  # two frames of one length, and one byte too many now and then
        return Packet(bytes((toc | 1,)) + body + body + bytes(dice.randrange(2)), 2 * one.samples)
    if kind == 4:  # padded, as far as one likes
        padding = dice.choice((0, 1, 253, 1000, 1275, 5000))
        count = bytes((toc | 3, 0x41)) + b"\xff" * (padding // 254) + bytes((padding % 254,))
        return Packet(count + body + bytes(padding), one.samples)
    if kind == 5:  # a frame is at most 1275 bytes
        size = dice.choice((1275, 1276, 1277, 5000, 70_000))
        return Packet(_CELT_20_MS_STEREO + (body * (size // max(len(body), 1) + 1))[: size - 1], 960)
    if kind == 6:  # 120 ms is the most
        frames = dice.choice((0, 6, 48, 49, 63))
        return Packet(bytes((toc | 3, frames)) + bytes(frames * dice.randrange(3)), frames * one.samples)
    if kind == 7:
        return Packet(one.data[: dice.randint(1, len(one.data))], one.samples)
    return Packet(bytes((dice.randrange(256),)) + dice.randbytes(dice.choice((1, 40, 400, 1274))), 960)


def opus_head(channels: int, pre_skip: int = 312, gain: int = 0, family: int = 0, *, version: int = 1) -> bytes:
    """The identification header (RFC 7845, 5.1). Families other than 0 get a table that maps channel by channel."""
    head = b"OpusHead" + bytes((version, channels)) + (pre_skip & 0xFFFF).to_bytes(2, "little")
    head += (48_000).to_bytes(4, "little") + gain.to_bytes(2, "little", signed=True) + bytes((family,))
    return head + (bytes((channels, 0)) + bytes(range(channels)) if family else b"")


PRE_SKIPS: Final = (0, 1, 119, 960, 961, 3840, 48_000, 65_535)
GAINS: Final = (-32_768, -5_120, -1, 1, 256, 5_120, 32_767)


# Others


def vorbis(dice: Dice) -> Sound:
    rate_hz = dice.choice((44_100, 48_000, 44_100, 22_050))
    return sound("ogg", "vorbis", rate_hz, 2, 128_000, (("strict", "experimental"),)).cut(dice)


def flac(dice: Dice) -> Sound:
    rate_hz = dice.choice((44_100, 48_000, 96_000, 8_000))
    return sound("flac", "flac", rate_hz, dice.choice((1, 2, 2))).cut(dice)


def aac(dice: Dice) -> Sound:
    rate_hz = dice.choice((44_100, 48_000, 22_050, 8_000))
    return sound("mp4", "aac", rate_hz, dice.choice((1, 2, 2)), 96_000).cut(dice)


def alac(dice: Dice) -> Sound:
    return sound("mp4", "alac", dice.choice((44_100, 48_000)), dice.choice((1, 2))).cut(dice)


def mp3(dice: Dice) -> Sound:
    rate_hz, bit_rate = dice.choice(
        ((44_100, 128_000), (44_100, 320_000), (48_000, 64_000), (32_000, 96_000), (22_050, 64_000), (8_000, 16_000))
    )
    channels = dice.choice((1, 2, 2))
    return sound("mp3", "libmp3lame", rate_hz, channels, bit_rate).cut(dice)

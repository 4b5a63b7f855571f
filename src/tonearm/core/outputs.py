"""The forms in which a player's audio leaves the decoder. A frame is rendered once, and encoded once for each form that
somebody listens to."""

from typing import Final, Literal, NamedTuple, TypeAlias

from tonearm.core.errors import LimitReached
from tonearm.core.frame import SAMPLE_BLOCK_BYTES, SAMPLE_RATE_HZ

OutputFormat: TypeAlias = Literal["pcm", "opus", "mp3"]
OpusSignal: TypeAlias = Literal["auto", "music", "voice"]

LOWEST_OPUS_BPS: Final = 6_000
HIGHEST_OPUS_BPS: Final = 510_000
HIGHEST_COMPLEXITY: Final = 10
MOST_ENCODERS: Final = 3  # of one format for one player; a message of a decoder has room for as many
# Of a packet with one frame: a byte that says so, and 1275 (RFC 6716, 3.1 and 3.4, R2). libopus makes such packets.
MOST_OPUS_PACKET_BYTES: Final = 1276

# What MPEG-1 layer III can be written with (ISO/IEC 11172-3, 2.4.2.3).
MP3_BITRATES_BPS: Final = tuple(1000 * kbps for kbps in (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320))
MP3_FRAME_SAMPLES: Final = 1152
# What the encoder keeps to itself at most until more comes: its own delay, and a frame that is not full yet.
MP3_DELAY_SAMPLES: Final = 1105 + MP3_FRAME_SAMPLES

OPUS_LOOKAHEAD_SAMPLES: Final = 312  # of an encoder for audio: its sound is so much later than what goes in
PRIMING_FRAMES: Final = 3  # before the first packet of an encoder that begins in mid-stream: as good as one that ran

# 20 ms of silence, and what a decoder takes as one: CELT, fullband, stereo, no data.
SILENT_PACKET: Final = b"\xfc\xff\xfe"


class Output(NamedTuple):
    """One form. The settings after `format` are those of its encoder: a PCM output has none, an MP3 output only
    `bitrate_bps`. `complexity` 0 to 10: each step costs more time for a little more quality. `passes_through`: packets
    of a source may come as they are, whatever their bitrate.

    A tuple of plain values, because it is a key that is looked up for each frame.
    """

    format: OutputFormat
    bitrate_bps: int = 128_000
    complexity: int = 5
    has_fec: bool = False
    signal: OpusSignal = "auto"
    is_variable: bool = True
    passes_through: bool = False


PCM: Final = Output("pcm", bitrate_bps=0)
PCM_BITRATE_BPS: Final = SAMPLE_RATE_HZ * SAMPLE_BLOCK_BYTES * 8

Outputs: TypeAlias = frozenset[Output]
NO_OUTPUTS: Final[Outputs] = frozenset()
PCM_ONLY: Final[Outputs] = frozenset({PCM})

# The forms that frames were rendered in, none when it was for nobody, and one frame in each of them, in the same order:
# 3840 bytes of PCM, or one packet, as a WebSocket message. In one form, as nearly all are, it is that message itself: a
# tuple for each frame takes 0.2 µs. There is never any MP3 among them: that is made of frames that were sent.
Forms: TypeAlias = tuple[Output, ...]
Payloads: TypeAlias = bytes | tuple[bytes, ...]


def has_format(outputs: Outputs, name: OutputFormat) -> bool:
    """Whether any of the outputs has this format."""
    return any(output.format == name for output in outputs)


def check_one_more(outputs: Outputs, output: Output) -> None:
    """Raises `LimitReached` where `outputs` have as many of the format as there may be, and not this one."""
    encoders = sorted(other for other in outputs if other.format == output.format)
    if output not in outputs and len(encoders) >= MOST_ENCODERS:
        raise LimitReached(
            f"The player is encoded at {MOST_ENCODERS} bitrates already. Ask for one of them: "
            f"{', '.join(str(other.bitrate_bps) for other in encoders)}."
        )


def mp3_output(bitrate_bps: int) -> Output:
    return Output("mp3", bitrate_bps)

"""The node's output audio: the format of its frames and the forms that listeners get. Every number of the frame format
follows from the first two constants. A frame is rendered once, and encoded once for each form that has listeners.
"""

from typing import Final, Literal, NamedTuple, TypeAlias

from tonearm.core.errors import LimitReached

SAMPLE_RATE_HZ: Final = 48_000
FRAME_MS: Final = 20

CHANNELS: Final = 2
SAMPLE_BYTES: Final = 2  # signed 16-bit little-endian

SAMPLE_BLOCK_BYTES: Final = CHANNELS * SAMPLE_BYTES  # one sample of every channel
FRAME_SAMPLES: Final = SAMPLE_RATE_HZ * FRAME_MS // 1000
FRAME_BYTES: Final = FRAME_SAMPLES * SAMPLE_BLOCK_BYTES
FRAMES_PER_SECOND: Final = 1000 // FRAME_MS
FRAME_S: Final = FRAME_MS / 1000

SILENT_FRAME: Final = bytes(FRAME_BYTES)


def samples_of_ms(duration_ms: float) -> int:
    """How many samples of each channel `duration_ms` has, rounded down."""
    return int(duration_ms * SAMPLE_RATE_HZ) // 1000


def ms_of_samples(samples: int) -> int:
    """How many milliseconds `samples` samples of each channel take, rounded down."""
    return samples * 1000 // SAMPLE_RATE_HZ


OutputFormat: TypeAlias = Literal["pcm", "opus", "mp3"]
ListenerKind: TypeAlias = OutputFormat | Literal["voice"]  # the kind under which a listener is counted
OpusSignal: TypeAlias = Literal["auto", "music", "voice"]

LOWEST_OPUS_BPS: Final = 6_000
HIGHEST_OPUS_BPS: Final = 510_000
HIGHEST_COMPLEXITY: Final = 10
MOST_ENCODERS: Final = 3  # of one format for one player; a message of a decoder has no room for more
# A packet with one frame, as libopus makes it: the TOC byte and at most 1275 bytes (RFC 6716, 3.1 and 3.4, R2).
MOST_OPUS_PACKET_BYTES: Final = 1276

# The bitrates of MPEG-1 layer III (ISO/IEC 11172-3, 2.4.2.3).
MP3_BITRATES_BPS: Final = tuple(1000 * kbps for kbps in (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320))
MP3_FRAME_SAMPLES: Final = 1152
# The most audio that the encoder keeps back: its own delay, and an incomplete frame.
MP3_DELAY_SAMPLES: Final = 1105 + MP3_FRAME_SAMPLES

OPUS_LOOKAHEAD_SAMPLES: Final = 312  # the delay of libopus in its audio mode
PRIMING_FRAMES: Final = 3  # for an encoder that begins in mid-stream, before its first packet

# 20 ms of silence: CELT, fullband, stereo, no data (RFC 6716, 3.1).
SILENT_PACKET: Final = b"\xfc\xff\xfe"


class Output(NamedTuple):
    """One form. The settings after `format` are those of its encoder: PCM has none, MP3 only `bitrate_bps`.

    `complexity` is 0 to 10: each step costs more time for a little more quality. `has_fec`: packets carry data with
    which a decoder conceals the loss of the previous packet. `passes_through`: packets of an Opus source may pass
    unchanged, whatever their bitrate.

    A form is a tuple of plain values, because it is a key that is looked up for each frame.
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

# `Forms` are the forms of rendered frames. `Payloads` are one frame in each of these forms, in the same order: 3840
# bytes of PCM, or one packet, as a WebSocket message. With a single form, the usual case, it is the message itself,
# which saves a tuple for each frame. MP3 is never among them, because it is encoded from frames that were sent.
Forms: TypeAlias = tuple[Output, ...]
Payloads: TypeAlias = bytes | tuple[bytes, ...]


def has_format(outputs: Outputs, name: OutputFormat) -> bool:
    return any(output.format == name for output in outputs)


def check_one_more(outputs: Outputs, output: Output) -> None:
    """Raises `LimitReached` when `outputs` and `output` together have more than `MOST_ENCODERS` forms of its format."""
    encoders = sorted(other for other in outputs if other.format == output.format)
    if output not in outputs and len(encoders) >= MOST_ENCODERS:
        raise LimitReached(
            f"The player is encoded at {MOST_ENCODERS} bitrates already. Ask for one of them: "
            f"{', '.join(str(other.bitrate_bps) for other in encoders)}."
        )


def mp3_output(bitrate_bps: int) -> Output:
    """The form of MP3 at this bitrate, one of `MP3_BITRATES_BPS`."""
    return Output("mp3", bitrate_bps)

"""Opens a container from bytes and decodes its first packets, to be sure that it contains audio."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import av
from av.audio.codeccontext import AudioCodecContext
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet
from av.stream import Discard, Disposition

from tonearm.core.failure import PlayError
from tonearm.core.track_info import AudioChoice, clean_language, missing_audio, wanted_audio
from tonearm.worker.media import formats
from tonearm.worker.media.demuxing import PacketDecoder, check_limits, raise_if_out_of_memory
from tonearm.worker.media.opus_format import OpusHead, opus_codec
from tonearm.worker.reading import errors
from tonearm.worker.reading.guarded_reader import GuardedReader

# The most that libav may read before its first packet. Its default of 5 MB is meant for video.
PROBE_BYTES: Final = 256 * 1024
# For a container of plain samples libav reads this much to find out whether they are DTS or AC-3. Eight frames of these
# are enough.
PCM_PROBE_BYTES: Final = 32 * 1024

# By default libav analyses more than a second of MP3 or AAC before it opens.
SLOW_ANALYSIS_US: Final = 100_000

_READ_BYTES: Final = 32 * 1024
_PYAV_MAJOR: Final = int(av.__version__.partition(".")[0])


@dataclass(slots=True)
class OpenedAudio:
    """A container whose first audio frames are decoded, from `first_packets`. `choice`: the chosen one of several audio
    streams. `has_true_length`: libav's length is right."""

    container: InputContainer
    stream: AudioStream
    decoder: PacketDecoder
    first_frames: list[AudioFrame]
    first_packets: "list[Packet[AudioStream]]"
    choice: AudioChoice | None
    has_true_length: bool = True


def open_audio(
    guard: GuardedReader, container_name: str | None = None, *, is_slow: bool = False, audio: str = ""
) -> OpenedAudio:
    """Opens the bytes of `guard` and decodes the first packets of an audio stream. `audio` names the stream by number
    or language. By default it is the decodable stream that is marked as the default, otherwise the first decodable
    stream. Raises PlayError.

    `container_name` is libav's name of a container for plain samples; None lets libav detect the container. `is_slow`:
    the bytes arrive in real time, so every byte that libav analyses first delays the audio.
    """
    container = open_container(guard, container_name, is_slow=is_slow)
    try:
        stream, choice = _chosen_audio_stream(container, guard.source_name, audio)
        head = OpusHead.of(stream.codec_context)
        codec = opus_codec(head.channels) if head is not None and head.is_plain else None
        decoder = PacketDecoder(container, stream, guard, codec)
        is_doubtful = container.format.name in formats.UNFRAMED_CONTAINERS and not is_slow
        first_frames, first_packets = _first_frames(decoder, guard, wanted_packets=12 if is_doubtful else 3)
    except BaseException:
        container.close()
        guard.raise_cause()
        raise
    return OpenedAudio(container, stream, decoder, first_frames, first_packets, choice)


def open_container(guard: GuardedReader, container_name: str | None = None, *, is_slow: bool = False) -> InputContainer:
    """The container alone, with any content; arguments as for `open_audio`. Raises PlayError."""
    options = {
        "protocol_whitelist": "none",
        "format_whitelist": ",".join(formats.CONTAINERS),
        "codec_whitelist": ",".join(sorted(formats.CODECS)),
        "probesize": str(PROBE_BYTES if container_name is None else PCM_PROBE_BYTES),
    }
    if guard.index.is_long:
        # To follow an edit list libav copies the whole index. The list would only cut off the encoder's delay.
        options["advanced_editlist"] = "0"
    if is_slow:
        options["analyzeduration"] = str(SLOW_ANALYSIS_US)
    arguments: dict[str, Any] = {
        "mode": "r",
        "format": container_name,
        "container_options": options,
        "buffer_size": _READ_BYTES,
    }
    if _PYAV_MAJOR < 19:
        # Later versions always read tags this way and have no such argument.
        arguments["metadata_errors"] = "surrogateescape"
    try:
        container: InputContainer = av.open(guard, **arguments)
    except PlayError:
        raise
    except (av.FFmpegError, MemoryError, ValueError) as error:
        guard.raise_cause()
        raise_if_out_of_memory(guard.source_name, error)
        raise errors.not_audio(guard.source_name, guard.content_type) from error
    try:
        guard.raise_failure()
    except BaseException:
        container.close()
        raise
    return container


def _chosen_audio_stream(container: InputContainer, name: str, wanted: str) -> tuple[AudioStream, AudioChoice | None]:
    streams = container.streams.audio
    if not streams:
        raise errors.no_audio_stream(name)
    languages = [clean_language(stream.language) for stream in streams]
    index = wanted_audio(wanted, languages) if wanted else _best_of(streams)
    if index is None:
        raise errors.no_such_audio(name, missing_audio(wanted, languages))
    stream = streams[index]
    choice = AudioChoice(index + 1, len(streams), languages[index])
    for other in container.streams:
        if other.index != stream.index:
            other.discard = Discard.all
    # None when libav has no decoder for the stream, despite the type annotation.
    codec_context = cast("AudioCodecContext | None", stream.codec_context)
    if codec_context is None:
        raise errors.unsupported_codec(name, "something unknown")
    if codec_context.name not in formats.CODECS:
        raise errors.unsupported_codec(name, codec_context.name)
    if codec_context.sample_rate and codec_context.layout.nb_channels:
        check_limits(name, codec_context.sample_rate, codec_context.layout.nb_channels)
    # Decoding needs a fraction of a core: more threads would only add context switches.
    codec_context.thread_count = 1
    return stream, choice if len(streams) > 1 else None


def _best_of(streams: Sequence[AudioStream]) -> int:
    def rank(index: int) -> tuple[bool, bool]:
        codec_context = cast("AudioCodecContext | None", streams[index].codec_context)
        can_be_decoded = codec_context is not None and codec_context.name in formats.CODECS
        return can_be_decoded, bool(streams[index].disposition & Disposition.default)

    return max(range(len(streams)), key=rank)  # the first of several equals


def _first_frames(
    decoder: PacketDecoder, guard: GuardedReader, *, wanted_packets: int
) -> "tuple[list[AudioFrame], list[Packet[AudioStream]]]":
    """Decodes until the data is plausibly audio: libav finds a few MP3 frames even in random bytes."""
    frames: list[AudioFrame] = []
    packets: list[Packet[AudioStream]] = []
    while decoder.good < wanted_packets:
        new_frames = decoder.next_frames()
        if new_frames is None:
            break
        if decoder.packet is not None:
            packets.append(decoder.packet)
        for frame in new_frames:
            check_limits(guard.source_name, frame.sample_rate, frame.layout.nb_channels)
        frames.extend(new_frames)
        if decoder.bad > 2 * decoder.good + 8:
            raise errors.not_audio(guard.source_name, guard.content_type)
    if not frames:
        raise errors.corrupt(guard.source_name, "none of its audio could be decoded")
    return frames, packets

"""Converts decoded frames of any rate, sample format and channel layout to the node's PCM.

A filter graph is fed many frames and pulled in blocks of 200 ms. Each pull without a result raises an exception, and
long blocks also make all further work less frequent.
"""

from dataclasses import dataclass
from typing import Final, cast

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.filter import Graph
from av.filter.context import FilterContext

from tonearm.core.frame import SAMPLE_BLOCK_BYTES, SAMPLE_RATE_HZ

BLOCK_SAMPLES: Final = 9600
LIVE_BLOCK_SAMPLES: Final = 4800  # of a source whose bytes arrive in real time

# Twice libswresample's default length, at which high tones from 44.1 kHz have audible aliases. exact_rational keeps the
# length exact.
FILTER_TAPS: Final = 64
_RESAMPLER_OPTIONS: Final = f"filter_size={FILTER_TAPS}:phase_shift=10:exact_rational=1:linear_interp=0:dither_method=0"

# ITU-R BS.775 (libswresample's own coefficients), scaled so that full scale in every channel stays full scale.
_DOWNMIX_OPTIONS: Final = "rematrix_maxval=1.0"

# Float samples of a file can have any value; libswresample turns values above 65536 times full scale to full negative.
# The floats of codecs, which are planar, stay far below.
_UNBOUNDED_FORMATS: Final = ("flt", "dbl")

# The assumed layout for a number of channels, if the file gives none.
_LAYOUT_OF_CHANNELS: Final = ("mono", "stereo", "2.1", "4.0", "5.0", "5.1", "6.1", "7.1")


@dataclass(frozen=True, slots=True)
class SourceFormat:
    sample_rate_hz: int
    sample_format: str
    layout: str
    channels: int

    @classmethod
    def of_frame(cls, frame: AudioFrame) -> "SourceFormat":
        layout = frame.layout
        return cls(frame.sample_rate, frame.format.name, layout.name, layout.nb_channels)


class Resampler:
    """Converts frames of one source format to s16le stereo at 48 kHz."""

    def __init__(self, source: SourceFormat, block_samples: int = BLOCK_SAMPLES) -> None:
        self.source = source
        self._block_samples = block_samples
        self._is_mono = source.channels == 1
        self._pushed_source_samples = 0
        self._pulled_samples = 0
        # Pushed samples that cannot be pulled yet, in output samples: at least half a filter.
        self._held_back_samples = settle_samples(source.sample_rate_hz) // 2
        self._next_block_at = self._source_samples_for_a_block()
        self._graph, self._source, self._sink = _build_graph(source, block_samples)

    def push(self, frame: AudioFrame) -> bool:
        """Takes a frame. False when it has another format and needs a new resampler.

        libav compares the formats itself. Comparing them in Python would cost as much as the push.
        """
        try:
            self._source.push(frame)
        except av.ArgumentError:
            if SourceFormat.of_frame(frame) == self.source:
                raise
            return False
        self._pushed_source_samples += frame.samples
        return True

    def pull_blocks(self) -> bytes:
        """All blocks of `block_samples` that are certainly ready."""
        if self._pushed_source_samples < self._next_block_at:
            return b""
        blocks = []
        try:
            while self._pushed_source_samples >= self._next_block_at:
                blocks.append(self._pull())
        except av.BlockingIOError:
            pass
        return blocks[0] if len(blocks) == 1 else b"".join(blocks)

    def finish(self) -> bytes:
        """The rest of the PCM. Nothing can be pushed afterwards."""
        self._source.push(None)
        blocks = []
        while True:
            try:
                blocks.append(self._pull())
            except (av.EOFError, av.BlockingIOError):
                return b"".join(blocks)

    def _source_samples_for_a_block(self) -> int:
        """The number of pushed source samples from which the next block is certainly ready."""
        samples = self._pulled_samples + self._block_samples + self._held_back_samples
        return -(-samples * self.source.sample_rate_hz // SAMPLE_RATE_HZ)

    def _pull(self) -> bytes:
        frame = cast(AudioFrame, self._sink.pull())
        self._pulled_samples += frame.samples
        self._next_block_at = self._source_samples_for_a_block()
        if self._is_mono:
            # libav's own conversion from mono to stereo attenuates by 3 dB.
            mono = np.frombuffer(memoryview(frame.planes[0]), np.int16, frame.samples)
            return np.repeat(mono, 2).tobytes()
        # A plane may be padded after its last sample.
        return bytes(memoryview(frame.planes[0])[: frame.samples * SAMPLE_BLOCK_BYTES])


def _build_graph(source: SourceFormat, block_samples: int) -> tuple[Graph, FilterContext, FilterContext]:
    try:
        return _configured_graph(source, block_samples, rename_channels_to=None)
    except (av.FFmpegError, ValueError):
        # For a layout that libav cannot mix (ambisonic, discrete channels), assume the usual layout of as many
        # channels.
        if source.channels > len(_LAYOUT_OF_CHANNELS):
            raise
        return _configured_graph(source, block_samples, rename_channels_to=_LAYOUT_OF_CHANNELS[source.channels - 1])


def _configured_graph(
    source: SourceFormat, block_samples: int, *, rename_channels_to: str | None
) -> tuple[Graph, FilterContext, FilterContext]:
    graph = Graph()
    graph.threads = 1  # by default libav starts a thread per core for each graph, with 8 MB of address space each
    buffer = graph.add_abuffer(
        sample_rate=source.sample_rate_hz,
        format=source.sample_format,
        layout=_named_layout(source),
    )
    chain = [buffer]
    if rename_channels_to is not None:
        names = "|".join(f"c{channel}=c{channel}" for channel in range(source.channels))
        chain.append(graph.add("pan", f"{rename_channels_to}|{names}"))
    if source.sample_format in _UNBOUNDED_FORMATS:
        chain.append(graph.add("asoftclip", "type=hard:threshold=1"))
    if source.sample_format.startswith(("s32", "s64")) and source.sample_rate_hz == SAMPLE_RATE_HZ:
        # libswresample truncates when only the sample format changes. It rounds from float.
        chain.append(graph.add("aformat", "sample_fmts=dbl" if source.sample_format.startswith("s64") else "fltp"))
    out_layout = "mono" if source.channels == 1 else "stereo"
    chain.append(
        graph.add(
            "aresample",
            f"{SAMPLE_RATE_HZ}:out_sample_fmt=s16:out_chlayout={out_layout}:{_DOWNMIX_OPTIONS}:{_RESAMPLER_OPTIONS}",
        )
    )
    # A link between two filters has all its buffers in the size of the largest, and asetnsamples takes a block from the
    # link before it. Without a filter in between, each short frame of aresample would get the memory of a block: 0.3 MB
    # for a source.
    chain.append(graph.add("anull"))
    chain.append(graph.add("asetnsamples", f"n={block_samples}:p=0"))
    sink = graph.add("abuffersink")
    chain.append(sink)
    graph.link_nodes(*chain)
    graph.configure()
    return graph, buffer, sink


def _named_layout(source: SourceFormat) -> str:
    # libav's name for an unknown layout is "6 channels".
    if source.layout.endswith("channels") and source.channels <= len(_LAYOUT_OF_CHANNELS):
        return _LAYOUT_OF_CHANNELS[source.channels - 1]
    return source.layout


def settle_samples(source_rate_hz: int) -> int:
    """The output samples after which a new resampler gives the same output as a running one: twice its filter."""
    return 2 * FILTER_TAPS * max(1, -(-SAMPLE_RATE_HZ // source_rate_hz))

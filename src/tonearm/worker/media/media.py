"""An opened source: decodes it piece by piece into the node's PCM, and seeks to a sample."""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Final

import av
from av.audio.frame import AudioFrame

from tonearm.core.failure import PlayError
from tonearm.core.file_formats import OGG_PATTERN, id3_tag_bytes, is_in_frames
from tonearm.core.frame import SAMPLE_BLOCK_BYTES
from tonearm.core.opened_source import media_type
from tonearm.core.track_info import SourceFacts
from tonearm.worker.media.demuxing import ConstantFrames, SourcePositions, check_limits, cut, source_start_for
from tonearm.worker.media.facts import StreamTitles, source_facts
from tonearm.worker.media.formats import EarningReader
from tonearm.worker.media.lengths import (
    FirstSound,
    audible_source_samples,
    constant_rate_bytes,
    counted_samples,
    is_length_exact,
    whole_source_samples,
)
from tonearm.worker.media.opening import OpenedAudio, open_audio
from tonearm.worker.media.opus_packets import OpusPackets, SourcePacket
from tonearm.worker.media.resampling import (
    BLOCK_SAMPLES,
    LIVE_BLOCK_SAMPLES,
    Resampler,
    SourceFormat,
    settle_samples,
)
from tonearm.worker.reading import errors
from tonearm.worker.reading.first_frame import from_first_frame
from tonearm.worker.reading.foreign_formats import foreign_format
from tonearm.worker.reading.guarded_reader import (
    GuardedReader,
    RewoundReader,
    TimedReader,
    has_mp4_index_at_end,
    is_fragmented_mp4,
    is_transport_stream,
    mp4_index,
    pcm_container,
    read_first_bytes,
)
from tonearm.worker.reading.ogg_repair import OggRepairer
from tonearm.worker.reading.pictures import PictureHider
from tonearm.worker.reading.reader import MediaReader

# How far before the target position decoding begins, since codecs depend on earlier packets (MP3's bit reservoir at low
# bit rates, 80 ms for Opus). The longer preroll is tried when the container lands after the position.
_PREROLLS_S: Final = (0.5, 5.0)
# After a seek in Ogg, libav's timestamps are wrong for FLAC up to the end of the page, and for all codecs on the last
# page. Pages can be some seconds long. The longer prerolls are for holes, where libav finds only the packets after the
# hole: without these prerolls everything from the start on would be read.
_OGG_PREROLLS_S: Final = (10.0, 30.0, 120.0, 600.0, 3600.0)
_OGG_DECODED_PREROLL_S: Final = 1.0  # Opus at low bit rates (SILK) depends on more than half a second
# Containers of HLS, ISO 13818-1 (2.4.2.1) and ISO 14496-12 (8.8.12). In packed audio each demuxer restarts the time.
_WITH_COMMON_CLOCK: Final = frozenset({"mpegts", "mp4"})
_NO_FRAME: Final = -1
_MOST_TAG_BYTES: Final = 4096  # behind the last frame of an MP3: less than a tag's picture, and than half a second
_FAST_SEEK: Final = 0x80000  # AVFMT_FLAG_FAST_SEEK


def open_media(
    reader: MediaReader,
    *,
    name: str,
    content_type: str | None,
    size_bytes: int | None,
    is_live: bool = False,
    titles: StreamTitles | None = None,
    audio: str = "",
    is_remote: bool = False,
    now_s: Callable[[], float] = time.monotonic,
) -> "Media":
    """Opens the audio in the bytes of `reader`.

    `name` is the file's name for messages, `content_type` the server's content type. `size_bytes` is None if unknown.
    `titles` collects the titles of a live source. `audio` names one of several audio streams, see `open_audio`. Where
    its bit rate leads to a position, a file that `is_remote` is not read up to there. `now_s` is a monotonic clock.
    Reads at most 32 MiB, not counting the index of an MP4 and hidden pictures, and takes at most 15 s. Raises
    PlayError; an error of the reader is passed on unchanged.
    """
    timed = TimedReader(reader, name, now_s)
    first = read_first_bytes(timed, is_live=is_live)
    if not first:
        raise errors.empty()
    what = None if is_live else foreign_format(first)
    if what is not None:
        raise errors.foreign(name, content_type, what)
    if not reader.seekable() and has_mp4_index_at_end(first):
        raise errors.index_at_end(name)
    # A transport stream arrives in whole segments, perhaps with video, not in real time.
    is_slow = is_live and not is_transport_stream(first)
    if is_slow and is_in_frames(first, media_type(content_type)) and not id3_tag_bytes(first):
        skipped_bytes, first = from_first_frame(first, timed)
        if titles is not None:
            titles.skipped_bytes += skipped_bytes
    whole: MediaReader = RewoundReader(first, timed)
    ogg: OggRepairer | None = None
    if first.startswith(OGG_PATTERN):
        whole = ogg = OggRepairer(whole, is_live=is_live)
    pictures = PictureHider(whole)
    first_sound = FirstSound(pictures, id3_tag_bytes(first))
    with EarningReader(first_sound) as earning:
        guard = GuardedReader(
            earning,
            source_name=name,
            content_type=content_type,
            size_bytes=size_bytes,
            index=mp4_index(first, size_bytes, timed),
        )
        pictures.on_hidden = guard.allow
        opened = open_audio(guard, pcm_container(first), is_slow=is_slow, audio=audio)
    # libav takes the length of the first fragment for the whole length if it reads the fragments in order, and that of
    # any link of a chained Ogg file.
    is_chained = ogg is not None and ogg.is_chained
    opened.has_true_length = not (is_live or is_chained) and (guard.seekable() or not is_fragmented_mp4(first))
    timed.unlimit()
    guard.begin_playing()
    sound_bytes = None if size_bytes is None else max(size_bytes - id3_tag_bytes(first), 0)
    facts = source_facts(
        opened,
        sound_bytes=sound_bytes,
        is_seekable=guard.seekable(),
        is_live=is_live,
        is_exact=is_length_exact(opened, first_sound.head),
    )
    constant: ConstantFrames | None = None
    samples = counted_samples(first_sound.head)
    # Where libav does not believe the count, it does not find places by it.
    if is_remote and facts.is_seekable and facts.is_length_exact is (samples > 0) and facts.probe_name == "mp3":
        rate_hz, counted_bytes = opened.first_frames[0].sample_rate, constant_rate_bytes(first_sound.head)
        constant = ConstantFrames.of(opened.first_packets, rate_hz, samples, counted_bytes)
    block_samples = LIVE_BLOCK_SAMPLES if is_live else BLOCK_SAMPLES
    audible_samples = audible_source_samples(opened)
    if constant is not None and samples and abs((size_bytes or 0) - constant.end_byte) < _MOST_TAG_BYTES:
        # libav does not cut the end after a seek by the bit rate, since its timestamps may be off by a frame.
        audible_samples = whole_source_samples(opened)
    return Media(opened, timed, guard, facts, titles, ogg, constant, audible_samples, block_samples)


class Media:
    """An opened source. Only the decoding thread may use it, `close` included. `timed` limits its reading."""

    def __init__(
        self,
        opened: OpenedAudio,
        timed: TimedReader,
        guard: GuardedReader,
        facts: SourceFacts,
        titles: StreamTitles | None,
        ogg: OggRepairer | None,
        constant: ConstantFrames | None,
        audible_samples: int | None,
        block_samples: int,
    ) -> None:
        self.facts = facts
        self.timed = timed
        self._opened = opened
        self._guard = guard
        self._titles = titles
        self._ogg = ogg
        self._constant = constant
        self._moved = 0  # from the positions of timestamps to the true ones, after a seek by the bit rate
        self._block_samples = block_samples
        self._decoded_bytes = 0
        self._positions = SourcePositions.of_stream(opened.stream, opened.first_frames)
        self._audible_samples = audible_samples
        if constant is not None:
            opened.container.flags |= _FAST_SEEK
        self._resampler: Resampler | None = None
        self._interruption: PlayError | None = None
        self._packets = OpusPackets.of(opened, self._positions, self._audible_samples, titles)
        if self._packets is not None:
            self.facts = replace(facts, has_packets=True)
        opened.first_packets = []
        self._begin(opened.first_frames, source_position=0, drop_output_samples=0)

    @property
    def begins_at_s(self) -> Fraction | None:
        """The timestamp of the first sample in seconds, in containers whose segments have a common clock."""
        if self._positions is None or self.facts.probe_name not in _WITH_COMMON_CLOCK:
            return None
        return self._positions.first_timestamp * self._positions.time_base

    @property
    def next_link(self) -> bytes:
        """At the end: the first bytes of a link of an Ogg stream that another `Media` has to read; else none."""
        return b"" if self._ogg is None else self._ogg.next_link

    @property
    def can_seek(self) -> bool:
        """False in a chained Ogg file, too, whose links count their time anew."""
        return self._guard.seekable() and self._opened.has_true_length

    def decode_block(self) -> bytes:
        """As `decode`, with the amount that is resampled at once."""
        return self.decode(self._block_samples)

    def decode(self, at_least_samples: int) -> bytes:
        """The next PCM: s16le stereo at 48 kHz, about `at_least_samples` samples or more; `b""` only at the end.

        Raises PlayError when the source was interrupted, once all PCM before the interruption was returned.
        """
        if self._interruption is not None:
            raise self._interruption
        parts: list[bytes] = []
        missing_bytes = max(at_least_samples, 1) * SAMPLE_BLOCK_BYTES
        try:
            while missing_bytes > 0 and not self._at_end:
                part = self._decode_packet()
                if part:
                    part = self._without_dropped(part)
                    self._decoded_bytes += len(part)
                    parts.append(part)
                    missing_bytes -= len(part)
        except PlayError as error:
            self._interruption = error
            parts.append(self._without_dropped(self._finish_resampler()))
            if not any(parts):
                raise
        return b"".join(parts)

    def take_opus_packets(self) -> OpusPackets | None:
        """The packets of a source whose packets can be passed through; otherwise None. The caller takes packets instead
        of calling `decode`, and seeks with `seek_packets`."""
        if self._packets is not None:
            self._pending_frames.clear()
        return self._packets

    def seek_packets(self, sample: int) -> list[SourcePacket]:
        """As `seek`, for packets. The returned packets contain the sample, unless it is after the end; the next packets
        follow them. Raises PlayError."""
        assert self._packets is not None
        positions = self._seekable_positions()
        try:
            return self._packets.seek(sample, self._seek_container, self._timestamps_to_try(sample, positions))
        except LookupError as error:
            raise errors.not_seekable(self._guard.source_name, "its container cannot find the position") from error

    def seek(self, sample: int) -> None:
        """Makes the next `decode` return the audio from `sample` (at 48 kHz) on, exact to the sample.

        After a seek past the end, `decode` returns `b""`. Raises PlayError when the seek is impossible. A source that
        is not seekable (`facts.is_seekable`) continues where it was; a source that failed during the seek has nothing
        more to decode.
        """
        positions = self._seekable_positions()
        wanted, drop_output_samples = source_start_for(
            sample, positions.sample_rate_hz, settle_samples(positions.sample_rate_hz)
        )
        self._interruption = None
        try:
            frames = self._frames_before(wanted, positions)
        except PlayError as error:
            self._interruption = error
            raise
        self._resampler = None
        self._begin(frames, source_position=wanted, drop_output_samples=drop_output_samples)
        self._is_before_start = True
        self._pass_whole_up_to = _NO_FRAME

    def close(self) -> None:
        """Frees all memory. The reader stays open."""
        self._resampler = None
        self._pending_frames.clear()
        self._opened.container.close()

    def _begin(self, frames: list[AudioFrame], *, source_position: int, drop_output_samples: int) -> None:
        self._pending_frames = frames
        self._source_position = source_position
        self._drop_output_bytes = drop_output_samples * SAMPLE_BLOCK_BYTES
        self._pass_whole_frames()
        self._at_end = False

    # Decoding

    def _decode_packet(self) -> bytes:
        if self._pending_frames:
            frames = self._pending_frames.copy()
            self._pending_frames.clear()
        else:
            next_frames = self._opened.decoder.next_frames()
            if next_frames is None:
                self._at_end = True
                return self._finish_resampler()
            frames = next_frames
            if self._titles is not None and self._opened.decoder.packet is not None:
                self._titles.packet_begins(self._opened.decoder.packet, self._decoded_bytes // SAMPLE_BLOCK_BYTES)
        finished = b""
        for frame in frames:
            position = self._source_position + frame.samples
            if position <= self._pass_whole_up_to:
                self._source_position = position
                finished += self._push(frame)
            else:
                audible = self._audible_part(frame)
                if audible is not None:
                    finished += self._push(audible)
        return finished + self._resampler.pull_blocks() if self._resampler is not None else finished

    def _push(self, frame: AudioFrame) -> bytes:
        """Resamples a frame. If it needs a new resampler, returns the rest of the PCM in the last resampler."""
        if self._resampler is not None and self._resampler.push(frame):
            return b""
        source = SourceFormat.of_frame(frame)
        check_limits(self._guard.source_name, source.sample_rate_hz, source.channels)
        finished = self._finish_resampler()
        self._resampler = Resampler(source, self._block_samples)
        self._resampler.push(frame)
        return finished

    def _pass_whole_frames(self) -> None:
        self._is_before_start = False
        self._pass_whole_up_to = sys.maxsize if self._audible_samples is None else self._audible_samples

    def _audible_part(self, frame: AudioFrame) -> AudioFrame | None:
        """The frame without its samples before the target position, and without samples after the container's end (AAC
        in MP4 is padded to a whole packet). None when no samples are left."""
        start, stop = 0, frame.samples
        if self._is_before_start:
            position = self._positions.of_frame(frame) if self._positions is not None else None
            start = 0 if position is None else self._source_position - position - self._moved
            if start >= stop:
                return None
            if start <= -stop:  # the position is in a hole, and the sound after it is audible from its start
                self._source_position -= start
                self._drop_output_bytes = 0
            start = max(start, 0)
            self._pass_whole_frames()
        if self._audible_samples is not None:
            stop = min(stop, start + self._audible_samples - self._source_position)
            if stop <= start:
                return None
        self._source_position += stop - start
        return frame if stop - start == frame.samples else cut(frame, start, stop)

    def _finish_resampler(self) -> bytes:
        resampler, self._resampler = self._resampler, None
        return resampler.finish() if resampler is not None else b""

    def _without_dropped(self, pcm: bytes) -> bytes:
        if self._drop_output_bytes == 0:
            return pcm
        dropped = min(self._drop_output_bytes, len(pcm))
        self._drop_output_bytes -= dropped
        return pcm[dropped:]

    # Seeking

    def _seekable_positions(self) -> SourcePositions:
        if not self._guard.seekable():
            raise errors.not_seekable(self._guard.source_name, "its server does not answer range requests")
        if self._positions is None or not self.can_seek:
            raise errors.not_seekable(self._guard.source_name, "its container has no timestamps for the whole of it")
        return self._positions

    def _frames_before(self, wanted: int, positions: SourcePositions) -> list[AudioFrame]:
        """Seeks the container to a point before the target source position. Returns the first frames there, or those
        after the position where it is in a hole of the timestamps."""
        behind: int | None = None
        timestamps = self._timestamps_to_try(wanted, positions)
        longest_preroll, first = timestamps[-3], timestamps[-1]
        for timestamp in timestamps:
            if not self._seek_container(timestamp):
                continue
            has_passed = False
            if self.facts.probe_name == "ogg":
                # Up to this point packets are only demuxed; the timestamps are right after the first page.
                decoded = int(_OGG_DECODED_PREROLL_S * positions.sample_rate_hz)
                has_passed = self._opened.decoder.skip_before(positions.timestamp_at(wanted - decoded))
            frames = self._next_decoded_frames()
            packet = self._opened.decoder.packet
            if self._constant is not None and packet is not None:
                self._moved = self._constant.error_of(packet, positions)
            position = positions.of_frame(frames[0]) if frames else None
            position = None if position is None else position + self._moved
            # A second timestamp leads from before the position to after it, too: the position is in a hole.
            is_hole = has_passed and position is not None and behind is not None and position <= behind
            if position is not None and (position <= wanted or is_hole):
                return frames
            behind = position
            # Behind the end a container of plain samples seeks anywhere. From its start on, all of it would be decoded.
            if not frames and (has_passed or timestamp == first or timestamp == longest_preroll > first):
                return []
        raise errors.not_seekable(self._guard.source_name, "its container cannot find the position")

    def _timestamps_to_try(self, wanted: int, positions: SourcePositions) -> list[int]:
        prerolls_s = _OGG_PREROLLS_S if self.facts.probe_name == "ogg" else _PREROLLS_S
        before = [wanted - int(preroll_s * positions.sample_rate_hz) for preroll_s in prerolls_s]
        start = positions.first_timestamp
        # Some containers have packets before the first audio (an encoder's delay), and some reject a time before it.
        return [*(positions.timestamp_at(position) for position in before), min(start, 0), start]

    def _seek_container(self, timestamp: int) -> bool:
        self._guard.begin_seeking()
        try:
            self._opened.container.seek(timestamp, stream=self._opened.stream)
        except av.FFmpegError:
            self._guard.raise_cause()
            return False
        self._guard.raise_cause()
        self._opened.decoder.restart()
        return True

    def _next_decoded_frames(self) -> list[AudioFrame]:
        while (frames := self._opened.decoder.next_frames()) is not None:
            if frames:
                return frames
        return []

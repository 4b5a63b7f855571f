"""A source as the decoder process plays it: opened once, decoded in turns, positioned by sample."""

from tonearm.core.failure import PlayError
from tonearm.core.frame import SAMPLE_RATE_HZ
from tonearm.core.track_info import SourceFacts
from tonearm.decoder import play_errors
from tonearm.decoder.facts import source_facts
from tonearm.decoder.guarded_reader import GuardedReader
from tonearm.decoder.media_reader import MediaReader
from tonearm.decoder.opening import OpenedAudio, open_audio
from tonearm.decoder.resampling import BLOCK_SAMPLES, Resampler, SourceFormat

__all__ = ["Media", "MediaReader", "open_media"]


def open_media(
    reader: MediaReader, *, name: str, content_type: str | None, size_bytes: int | None, is_live: bool = False
) -> "Media":
    """Open the audio that `reader` gives.

    `name` is the file's name for messages, `content_type` what a server called it. `size_bytes` is None when unknown.
    Takes at most 32 MiB and 15 s. Raises PlayError; one that the reader raises comes out unchanged.
    """
    if size_bytes == 0:
        raise play_errors.empty()
    guard = GuardedReader(reader, name=name, size_bytes=size_bytes)
    opened = open_audio(guard, name=name, content_type=content_type)
    guard.begin_playing()
    facts = source_facts(opened, size_bytes=size_bytes, is_seekable=guard.seekable(), is_live=is_live)
    return Media(opened, guard, facts, name)


class Media:
    """An opened source. For one thread only; `close` too belongs to the thread that decodes."""

    def __init__(self, opened: OpenedAudio, guard: GuardedReader, facts: SourceFacts, name: str) -> None:
        self.facts = facts
        self._opened = opened
        self._guard = guard
        self._name = name
        self._waiting_frames = opened.first_frames
        self._resampler: Resampler | None = None
        self._at_end = False
        self._broken: PlayError | None = None

    def decode(self, at_least_samples: int) -> bytes:
        """The next PCM: s16le stereo at 48 kHz, about `at_least_samples` a channel or more; `b""` only at the end.

        Raises PlayError when the source breaks off, after everything decoded before it was returned.
        """
        if self._broken is not None:
            raise self._broken
        parts: list[bytes] = []
        samples = 0
        try:
            while samples < at_least_samples and not self._at_end:
                part = self._decode_packet()
                if part:
                    parts.append(part)
                    samples += len(part) // 4
        except PlayError as error:
            self._broken = error
            parts.append(self._finish_resampler())
            if not any(parts):
                raise
        return b"".join(parts)

    def seek(self, sample: int) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything. The reader stays its owner's."""
        self._resampler = None
        self._opened.container.close()

    def _decode_packet(self) -> bytes:
        if self._waiting_frames:
            frames, self._waiting_frames = self._waiting_frames, []
        else:
            next_frames = self._opened.decoder.next_frames()
            if next_frames is None:
                self._at_end = True
                return self._finish_resampler()
            frames = next_frames
        finished = b""
        resampler = self._resampler
        for frame in frames:
            source = SourceFormat.of_frame(frame)
            if resampler is None or resampler.source != source:
                finished += self._finish_resampler()
                resampler = self._resampler = Resampler(source)
            resampler.push(frame)
        return finished + resampler.pull_blocks() if resampler is not None else finished

    def _finish_resampler(self) -> bytes:
        resampler, self._resampler = self._resampler, None
        return resampler.finish() if resampler is not None else b""

"""Encodes sent frames to MP3, in a separate thread.

The encoder's state cannot be copied, so frames are encoded only when no plan can void them any more. Encoding MP3 takes
three times as long as Opus, so the rendering thread does not wait for it. This thread also encodes the Opus at the
beginning of a stream: two seconds that were sent before.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import av
import numpy as np

from tonearm.core.frame import (
    CHANNELS,
    FRAME_BYTES,
    FRAME_SAMPLES,
    MP3_DELAY_SAMPLES,
    MP3_FRAME_SAMPLES,
    SAMPLE_BLOCK_BYTES,
    SAMPLE_RATE_HZ,
    SILENT_FRAME,
    Output,
    Outputs,
)
from tonearm.decoder.messages import Encoded
from tonearm.worker.packets.opus_encoder import encoded_alone

# 7 of 9 is twice as fast as the default, 5.
_COMPRESSION_LEVEL: Final = "7"
_MP3_FRAME_BYTES: Final = MP3_FRAME_SAMPLES * SAMPLE_BLOCK_BYTES

# Flushes the last samples out of the encoder.
MP3_FLUSH_PCM: Final = SILENT_FRAME * -(-MP3_DELAY_SAMPLES // FRAME_SAMPLES)


class Mp3Encoder:
    """Encodes PCM as it arrives. Each frame is independent of the bits of earlier frames, so that silence can come in
    between."""

    def __init__(self, bitrate_bps: int) -> None:
        self._context = av.CodecContext.create("libmp3lame", "w")
        self._context.sample_rate = SAMPLE_RATE_HZ
        self._context.layout = "stereo"
        self._context.format = "s16p"
        self._context.bit_rate = bitrate_bps
        self._context.options = {"reservoir": "0", "compression_level": _COMPRESSION_LEVEL}
        self._pcm = bytearray()
        self._samples = 0

    def encode(self, pcm: bytes) -> list[bytes]:
        """The MP3 frames, each of 24 ms, that this s16le stereo PCM completes."""
        self._pcm += pcm
        frames: list[bytes] = []
        while len(self._pcm) >= _MP3_FRAME_BYTES:
            samples = np.frombuffer(bytes(self._pcm[:_MP3_FRAME_BYTES]), "<i2").reshape(-1, CHANNELS)
            del self._pcm[:_MP3_FRAME_BYTES]
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples.T), "s16p", "stereo")
            frame.sample_rate = SAMPLE_RATE_HZ
            frame.pts = self._samples
            self._samples += MP3_FRAME_SAMPLES
            frames += map(bytes, self._context.encode(frame))
        return frames


class Mp3Job(NamedTuple):
    """Sent frames of a session, from `first_frame` to before `end_frame`. For Opus the packets are encoded
    independently. `is_first`: no frames of the session were encoded for this output, or not recently."""

    session: int
    output: Output
    first_frame: int
    end_frame: int
    pcm: bytes
    is_first: bool

    def done(self, frames: Sequence[bytes]) -> Encoded:
        return Encoded(self.session, self.first_frame, self.end_frame, self.output, tuple(frames), self.is_first)


class SentFrames:
    """Tracks which frames of a session were sent, and handed in for each MP3 output. Only sent frames become MP3.

    `mp3_from`: the first frame that an earlier process rendered and that was sent, but not encoded when the process
    died. It is rendered again for MP3 (None: there is no such frame).
    """

    def __init__(self, session: int, mp3_from: int | None) -> None:
        self._session = session
        self._begins = mp3_from
        self._handed_in: dict[Output, int] = {}  # by output: the first frame that was not handed in
        self._begun: set[Output] = set()  # outputs for which a frame was handed in

    def keep(self, outputs: Outputs) -> None:
        """Forgets all outputs but these. An output that returns begins with the frames that are sent then."""
        self._handed_in = {form: frame for form, frame in self._handed_in.items() if form in outputs}
        self._begun &= outputs

    def hand_in(
        self,
        outputs: Outputs,
        sent: int,
        rendered: int,
        pcm_between: Callable[[int, int], bytes],
        pcm_before: Callable[[int], bytes],
        *,
        is_over: bool,
    ) -> list[Mp3Job]:
        """Makes a job for each MP3 output from the frames sent since the last call: those before `sent`.

        Frames before `rendered` were rendered. `pcm_between` returns the PCM from one frame to before another, and
        `pcm_before` the PCM sent before a frame, with which an output begins. `is_over`: no further sound will flush
        the last samples out of the encoder.
        """
        wanted = {form for form in outputs if form.format == "mp3"}
        sent_to = min(sent, rendered)  # an earlier process's frames were sent before they are rendered again
        jobs = []
        for form in sorted(wanted):
            first_frame = self._handed_in.get(form, sent_to if self._begins is None else self._begins)
            end_frame = max(first_frame, sent_to)
            pcm = pcm_between(first_frame, end_frame)
            if form not in self._handed_in and self._begins is None:
                pcm = pcm_before(first_frame)
                first_frame -= len(pcm) // FRAME_BYTES
            is_first = form not in self._begun
            if pcm:
                self._begun.add(form)
            if pcm and is_over and sent >= rendered:
                pcm += MP3_FLUSH_PCM
            self._handed_in[form] = end_frame
            jobs.append(Mp3Job(self._session, form, first_frame, end_frame, pcm, is_first))
        if wanted:
            self._begins = None
        return jobs


class Mp3Thread:
    """Does jobs in order, and calls `deliver` in the thread with each result. A failed job has a result without frames:
    its listeners get silence, and the thread continues. `tell(doing, error)` logs the cause. `guarded` wraps the
    thread's work."""

    def __init__(
        self,
        deliver: Callable[[Encoded], None],
        tell: Callable[[str, Exception], None],
        guarded: Callable[[Callable[[], None]], Callable[[], None]],
    ) -> None:
        self._guarded = guarded
        self._deliver = deliver
        self._tell = tell
        self._jobs: queue.SimpleQueue[Mp3Job | int] = queue.SimpleQueue()
        self._encoders: dict[int, dict[Output, Mp3Encoder]] = {}
        self._has_started = False

    def do(self, job: Mp3Job) -> None:
        """Queues a job. The first job starts the thread. While the system cannot start a thread, jobs fail."""
        if not self._has_started:
            try:
                threading.Thread(target=self._guarded(self._run), name="mp3", daemon=True).start()
            except (RuntimeError, MemoryError) as error:
                self._tell("it started a thread for MP3", error)
                self._deliver(job.done(()))
                return
            self._has_started = True
        self._jobs.put(job)

    def forget(self, session: int) -> None:
        if self._has_started:
            self._jobs.put(session)

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            if isinstance(job, int):
                self._encoders.pop(job, None)
                continue
            mp3_frames: list[bytes] = []
            try:
                mp3_frames = self._encoded(job)
            except Exception as error:  # noqa: BLE001 - such as a library without this encoder; others' jobs follow
                self._tell("it encoded MP3", error)
                self._encoders.pop(job.session, None)
            self._deliver(job.done(mp3_frames))

    def _encoded(self, job: Mp3Job) -> list[bytes]:
        if job.output.format == "opus":
            return encoded_alone(job.output, job.pcm)
        encoders = self._encoders.setdefault(job.session, {})
        if job.is_first or job.output not in encoders:
            encoders[job.output] = Mp3Encoder(job.output.bitrate_bps)
        return encoders[job.output].encode(job.pcm)

"""Which frames of a session are encoded as MP3. Only frames that were sent are."""

from tonearm.core.frame import FRAME_BYTES
from tonearm.core.outputs import Output, Outputs
from tonearm.worker.packets.mp3 import TAIL_PCM, Mp3Job
from tonearm.worker.rendering.timeline import Timeline


class SentFrames:
    """Which frames of a session were sent, and handed in for each MP3 output.

    `mp3_from`: the first frame that an earlier process rendered, and that was sent but not encoded when it died. It is
    rendered once more for that (None: there is none).
    """

    def __init__(self, session: int, mp3_from: int | None) -> None:
        self._session = session
        self._begins = mp3_from
        self._handed_in: dict[Output, int] = {}  # by output: the first frame that was not

    def keep(self, outputs: Outputs) -> None:
        """Only these forms are listened to: one that comes back begins with what is sent then."""
        self._handed_in = {form: frame for form, frame in self._handed_in.items() if form in outputs}

    def burst(self, output: Output, before_frame: int, pcm: bytes) -> Mp3Job | None:
        """A job for frames before `before_frame`, to be done before any other one for this output. None for MP3 whose
        listeners have got something else already."""
        if output.format == "mp3" and self._handed_in.get(output) != before_frame:
            return None
        first_frame = before_frame - len(pcm) // FRAME_BYTES
        return Mp3Job(self._session, output, first_frame, before_frame, pcm, True)

    def hand_in(self, outputs: Outputs, timeline: Timeline, sent: int, *, is_over: bool) -> list[Mp3Job]:
        """Makes a job for each MP3 output of what was sent since the last time: frames before `sent`, which are kept in
        `timeline`. `is_over`: nothing is played that would bring the last samples out of the encoder."""
        wanted = {form for form in outputs if form.format == "mp3"}
        # What an earlier process rendered and did not encode was sent before it is rendered once more.
        sent_to = sent if self._begins is None else min(sent, timeline.end.frame)
        jobs = []
        for form in sorted(wanted):
            is_first = form not in self._handed_in
            first_frame = self._handed_in.get(form, sent_to if self._begins is None else self._begins)
            end_frame = max(first_frame, sent_to)
            pcm = timeline.pcm_between(first_frame, end_frame)
            if pcm and is_over and sent >= timeline.end.frame:
                pcm += TAIL_PCM
            self._handed_in[form] = end_frame
            jobs.append(Mp3Job(self._session, form, first_frame, end_frame, pcm, is_first))
        if sent <= timeline.end.frame:
            self._begins = None
        return jobs

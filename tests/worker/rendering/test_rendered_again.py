"""Frames that are rendered again, from any frame on, are the same: with filters, cuts, fades, overlays, other forms."""

from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.one_of_each import ONE_OF_EACH, filters_with
from tests.support.pcm import noise, sounds_the_same, tone
from tests.support.session_bench import SessionBench, StoredSource
from tonearm.core.filters import BAND_COUNT, Filters, Limiter, Normalization, Timescale
from tonearm.core.frame import FRAME_SAMPLES, PCM, Output
from tonearm.decoder.messages import FIRST_OVERLAY_SOURCE, CrossfadeOrder, MarkKind, OverlayOrder
from tonearm.worker.packets.opus_encoder import OpusEncoder

OPUS: Final = Output("opus", complexity=0)
FIRST: Final = FIRST_OVERLAY_SOURCE

SETTINGS: Final = (
    Filters(),
    Filters(volume=0.3),
    Filters(gains_db=(9.0, 3.0, *(0.0,) * (BAND_COUNT - 3), -6.0)),
    filters_with(Limiter(enabled=True), volume=5.0),
    filters_with(Normalization(-14.0)),
    filters_with(Timescale(speed=1.3, pitch=0.9)),
    *(filters_with(effect, volume=0.5) for effect in ONE_OF_EACH),
)

SHORT, LONG = 14, 60  # frames
CLIPS: Final = {frames: tone(440.0, frames=frames, peak=6_000) for frames in (SHORT, LONG)}
# Each begins with a track that joins the next one, or fades over into it.
TRACKS: Final = [
    noise(frames=27, peak=9_000, seed=seed)[: 4 * (26 * FRAME_SAMPLES + 100 * seed)] for seed in range(1, 4)
]
NEXT: Final = noise(frames=250, peak=9_000, seed=9)

KINDS = st.sampled_from(["filters", "cut", "overlay", "pause", "stop"])
STEPS = st.lists(st.tuples(st.integers(1, 25), KINDS, st.integers(0, 10_000)), min_size=1, max_size=6)
AGAIN = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 45)), min_size=1, max_size=12)


class Story:
    """A track, another one behind it, and what is ordered meanwhile."""

    def __init__(self, *, fades: bool, is_encoded: bool) -> None:
        self.bench = SessionBench({})
        self._fade = CrossfadeOrder(22 * FRAME_SAMPLES + 7, 3 * FRAME_SAMPLES + 11, "linear") if fades else None
        self._overlays: list[tuple[OverlayOrder, int]] = []  # with the frame at which each is over
        self._pauses = False
        if is_encoded:
            self.bench.listen(PCM, OPUS)
        self.take("cut", 0)

    def run(self, frames: int) -> None:
        self.bench.run(self.bench.sent + frames)

    def take(self, kind: str, choice: int) -> None:
        """Something is ordered from the next frame on. A pause lasts up to the next order."""
        bench, switch_to = self.bench, None
        bench.pauses = kind == "pause"
        if kind == "filters":
            bench.filters = SETTINGS[choice % len(SETTINGS)]
        elif kind == "cut":
            switch_to = len([number for number in bench.sources if number < FIRST]) + 1
            for number, pcm in ((switch_to, TRACKS[choice % len(TRACKS)]), (switch_to + 1, NEXT)):
                bench.sources[number] = StoredSource(pcm)
                bench.sources[number].loudness.tagged_lufs = -20.0 + number
        elif kind == "stop":
            self._overlays.clear()
        else:
            frames = LONG if kind == "pause" else SHORT
            source = FIRST + len(bench.sources)
            bench.sources[source] = StoredSource(CLIPS[frames])
            self._overlays.append((OverlayOrder(source, 0.7, -9.0, 1_500), bench.sent + frames))
        self._plan(bench.sent, switch_to)

    def render_again(self, ahead: int) -> None:
        """Orders the same once more, from one of the frames on that are rendered and not sent."""
        left = self.bench.end_frame - self.bench.sent
        self._plan(self.bench.sent + ahead % (left + 1))

    def _plan(self, at_frame: int, switch_to: int | None = None) -> None:
        bench = self.bench
        begun = [mark.source for mark in bench.marks if mark.kind is MarkKind.BEGIN and mark.frame < at_frame]
        after = switch_to or begun[-1]
        following = after + 1 if after % 2 else None
        bench.overlays = tuple(order for order, over_at in self._overlays if over_at > bench.sent)
        crossfade = self._fade if following and bench.filters.effects.position_rate == 1.0 else None
        bench.plan(at_frame, switch_to=switch_to, after=after, following=following, crossfade=crossfade)
        bench.render()


@settings(max_examples=examples(40))
@given(STEPS, AGAIN, st.booleans(), st.booleans())
def test_whatever_is_rendered_again_is_what_it_was(
    steps: list[tuple[int, str, int]], again: list[tuple[int, int]], fades: bool, is_encoded: bool
) -> None:
    once, often = (Story(fades=fades, is_encoded=is_encoded) for _ in range(2))
    turns = iter(again * 10)
    for frames, kind, choice in [*steps, (30, "stop", 0)]:
        once.run(frames)
        left = frames
        while left:
            passed, ahead = next(turns, (left, 0))
            often.run(min(passed, left))
            left -= min(passed, left)
            often.render_again(ahead)
        assert once.bench.sent == often.bench.sent
        once.take(kind, choice)
        often.take(kind, choice)
    sent = once.bench.sent
    for frame in range(sent):
        assert sounds_the_same(often.bench.frames[frame], once.bench.frames[frame]), f"frame {frame}"
    assert [mark for mark in often.bench.marks if mark.frame < sent] == [
        mark for mark in once.bench.marks if mark.frame < sent
    ]
    if is_encoded:
        encoder = OpusEncoder(OPUS)
        packets = [encoder.encode(often.bench.frames[frame]) for frame in range(sent)]
        assert packets == [often.bench.packets[OPUS][frame] for frame in range(sent)]

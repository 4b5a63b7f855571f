from hypothesis import given
from hypothesis import strategies as st

from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_SAMPLES
from tonearm.worker.filters.chain import ChainState
from tonearm.worker.mixing.voices import ONE_VOICE
from tonearm.worker.rendering.timeline import Block, Checkpoint, Part, SourcePosition, Timeline
from tonearm.worker.sources.pcm_store import Segment

NO_SOURCE = SourcePosition(0, 0, has_begun=False)


def state(number: int) -> ChainState:
    """A state of the filters that can be told apart from others."""
    return ChainState.steady(Filters(volume=number / 1000))


def number_of(chain: ChainState) -> int:
    return round(chain.filters.volume * 1000)


def timeline_of(*blocks: list[tuple[int, int, int]], start_frame: int = 0) -> Timeline:
    """Blocks of (source, first sample, samples); the filters before frame n are `state(n)`. Silence fills frames."""
    timeline = Timeline(Checkpoint(start_frame, NO_SOURCE, state(start_frame)))
    for parts in blocks:
        segments = []
        offset = 0
        for source, sample, length in parts:
            segments.append(Segment(offset, source, sample, length))
            offset += length
        frames = -(-offset // FRAME_SAMPLES)
        start = timeline.end
        states = tuple(state(start.frame + index + 1) for index in range(frames))
        timeline.append(Block(start, frames, tuple(segments), states))
    return timeline


def test_rendering_goes_on_after_the_last_block() -> None:
    timeline = timeline_of([(1, 0, 3 * FRAME_SAMPLES)], [(1, 3 * FRAME_SAMPLES, 2 * FRAME_SAMPLES)])
    assert timeline.end.frame == 5
    assert timeline.end.position == SourcePosition(1, 5 * FRAME_SAMPLES, has_begun=True)
    assert number_of(timeline.end.filters) == 5


def test_a_cut_in_a_block_has_its_position_and_filters() -> None:
    cut = timeline_of([(1, 500, 5 * FRAME_SAMPLES)]).cut_at(2)
    assert cut.end.frame == 2
    assert cut.end.position == SourcePosition(1, 500 + 2 * FRAME_SAMPLES, has_begun=True)
    assert number_of(cut.end.filters) == 2
    assert cut.last_parts(100) == [Part(0, 2, (Segment(0, 1, 500, 2 * FRAME_SAMPLES),), ONE_VOICE)]


def test_a_cut_leaves_the_timeline_itself_whole() -> None:
    timeline = timeline_of([(1, 0, 5 * FRAME_SAMPLES)])
    cut = timeline.cut_at(3)
    cut.append(Block(cut.end, 1, (Segment(0, 2, 0, FRAME_SAMPLES),), (state(9),)))
    timeline.forget_before(5)
    assert timeline.end.frame == 5
    assert cut.end.position == SourcePosition(2, FRAME_SAMPLES, has_begun=True)
    assert cut.oldest_samples() == {1: 0, 2: 0}


def test_a_cut_in_the_frame_of_a_join_stands_before_it() -> None:
    timeline = timeline_of([(1, 0, FRAME_SAMPLES + 100), (2, 0, 2 * FRAME_SAMPLES - 100)])
    assert timeline.cut_at(1).end.position == SourcePosition(1, FRAME_SAMPLES, has_begun=True)
    assert timeline.cut_at(2).end.position == SourcePosition(2, FRAME_SAMPLES - 100, has_begun=True)


def test_a_cut_where_another_source_begins_on_a_frame_stands_at_the_end_of_the_first() -> None:
    timeline = timeline_of([(1, 0, FRAME_SAMPLES), (2, 0, FRAME_SAMPLES)])
    assert timeline.cut_at(1).end.position == SourcePosition(1, FRAME_SAMPLES, has_begun=True)


def test_silence_that_fills_a_frame_is_behind_the_last_sample() -> None:
    timeline = timeline_of([(1, 0, FRAME_SAMPLES + 1)])
    assert timeline.end.frame == 2
    assert timeline.end.position == SourcePosition(1, FRAME_SAMPLES + 1, has_begun=True)


def test_a_cut_at_the_first_frame_of_a_block_is_where_that_block_stood() -> None:
    timeline = timeline_of([(1, 0, FRAME_SAMPLES)])
    switched = Checkpoint(1, SourcePosition(2, -1, has_begun=False), state(77))
    timeline.end = switched
    timeline.append(Block(switched, 1, (Segment(0, 2, 0, FRAME_SAMPLES),), (state(78),)))
    assert timeline.cut_at(1).end == switched
    assert timeline.cut_at(0).end.position == NO_SOURCE


def test_a_cut_beyond_the_end_is_at_the_end_and_one_before_the_start_at_the_start() -> None:
    timeline = timeline_of([(1, 0, 5 * FRAME_SAMPLES)], [(1, 5 * FRAME_SAMPLES, 5 * FRAME_SAMPLES)], start_frame=100)
    assert timeline.cut_at(10**9).end == timeline.end
    timeline.forget_before(105)
    oldest = timeline.cut_at(3).end
    assert oldest.frame == 105
    assert oldest.position == SourcePosition(1, 5 * FRAME_SAMPLES, has_begun=True)
    assert number_of(oldest.filters) == 105


def test_a_timeline_of_nothing_can_be_cut() -> None:
    timeline = timeline_of(start_frame=7)
    for frame in (0, 7, 8):
        assert timeline.cut_at(frame).end == Checkpoint(7, NO_SOURCE, timeline.end.filters)
    timeline.append(Block(timeline.end, 1, (Segment(0, 1, 0, FRAME_SAMPLES),), (state(8),)))
    timeline.forget_before(100)
    assert timeline.cut_at(2).end == timeline.end


def test_only_whole_blocks_are_forgotten() -> None:
    timeline = timeline_of([(1, 0, 5 * FRAME_SAMPLES)], [(1, 5 * FRAME_SAMPLES, 5 * FRAME_SAMPLES)])
    timeline.forget_before(4)
    assert timeline.oldest_samples() == {1: 0}
    timeline.forget_before(5)
    assert timeline.oldest_samples() == {1: 5 * FRAME_SAMPLES}


def test_the_end_needs_its_source_too() -> None:
    timeline = timeline_of([(1, 0, FRAME_SAMPLES)])
    timeline.forget_before(1)
    assert timeline.oldest_samples() == {1: FRAME_SAMPLES}


def test_a_source_that_is_heard_twice_needs_its_oldest_sample() -> None:
    timeline = timeline_of([(1, 5000, FRAME_SAMPLES), (1, 20, FRAME_SAMPLES)])
    assert timeline.oldest_samples() == {1: 20}


@given(
    st.lists(st.lists(st.integers(1, 3000), min_size=1, max_size=6), min_size=1, max_size=4),
    st.integers(0, 40),
    st.integers(0, 30),
)
def test_the_last_parts_are_the_last_frames_with_silence_where_nothing_was(
    blocks: list[list[int]], cut_frame: int, frames: int
) -> None:
    sources = iter(range(1, 100))
    made = [[(next(sources), 10, length) for length in lengths] for lengths in blocks]
    cut = timeline_of(*made).cut_at(cut_frame)
    rendered: list[tuple[int, int] | None] = []
    for block in made:
        rendered += [(source, first + index) for source, first, length in block for index in range(length)]
        rendered += [None] * (-len(rendered) % FRAME_SAMPLES)
    found: list[tuple[int, int] | None] = []
    for part in cut.last_parts(frames):
        samples: list[tuple[int, int] | None] = [None] * (part.frames * FRAME_SAMPLES)
        for segment in part.segments:
            for index in range(segment.length):
                samples[segment.offset + index] = (segment.source, segment.sample + index)
        assert part.time == (cut.end.frame - min(frames, cut.end.frame)) * FRAME_SAMPLES + len(found)
        found += samples
    last = rendered[: cut.end.frame * FRAME_SAMPLES]
    assert found == (last[-frames * FRAME_SAMPLES :] if frames else [])

import pytest

from tests.support.tracks import make_track
from tonearm.core.play_queue import EndReason, LoopMode, QueuedTrack, Selection, select_next

NONE, TRACK, QUEUE = LoopMode
FINISHED, SKIPPED, LOAD_FAILED, STOPPED, REPLACED = EndReason

# mode, reason, queue → the next track, the queue then; "now" is the track that ended.
TABLE = [
    (NONE, FINISHED, "", None, ""),
    (NONE, FINISHED, "ab", "a", "b"),
    (NONE, SKIPPED, "ab", "a", "b"),
    (NONE, REPLACED, "ab", "a", "b"),
    (TRACK, FINISHED, "", "now", ""),
    (TRACK, FINISHED, "ab", "now", "ab"),
    (TRACK, SKIPPED, "", None, ""),
    (TRACK, SKIPPED, "ab", "a", "b"),
    (TRACK, LOAD_FAILED, "ab", "now", "ab"),
    (TRACK, REPLACED, "ab", "a", "b"),
    (QUEUE, FINISHED, "", "now", ""),
    (QUEUE, FINISHED, "ab", "a", ("b", "now")),
    (QUEUE, SKIPPED, "ab", "a", ("b", "now")),
    (QUEUE, LOAD_FAILED, "ab", "a", ("b", "now")),
    (QUEUE, REPLACED, "ab", "a", ("b", "now")),
    (QUEUE, STOPPED, "ab", None, "ab"),
]


@pytest.mark.parametrize(("mode", "reason", "queue", "track", "queue_then"), TABLE)
def test_the_next_track(
    mode: LoopMode, reason: EndReason, queue: str, track: str | None, queue_then: str | tuple[str, ...]
) -> None:
    assert select_next(mode, reason, "now", tuple(queue)) == Selection(track, tuple(queue_then))


@pytest.mark.parametrize("mode", LoopMode)
@pytest.mark.parametrize("reason", [LOAD_FAILED, SKIPPED])
@pytest.mark.parametrize(("queue", "track", "queue_then"), [("", None, ""), ("a", "a", ""), ("ab", "a", "b")])
def test_a_track_that_never_gave_audio_comes_back_in_no_mode(
    mode: LoopMode, reason: EndReason, queue: str, track: str | None, queue_then: str
) -> None:
    selection = select_next(mode, reason, "now", tuple(queue), drops_current=True)
    assert selection == Selection(track, tuple(queue_then))


@pytest.mark.parametrize(("failures", "delay_s"), [*enumerate((0, 1, 2, 4, 8, 16, 30, 30))])
def test_an_interrupted_track_is_opened_again_after_longer_and_longer_delays(failures: int, delay_s: int) -> None:
    assert QueuedTrack(make_track("a"), gave_audio=True, failures=failures).retry_delay_s == delay_s

"""Who waits for room, since when, and who of them makes an overload."""

from tests.support.hand_time import HandTime
from tonearm.core.admission import Claim, Urgency
from tonearm.decoder.messages import FromDecoder
from tonearm.decoder.pool.overload import LOGGED_AFTER_S, Overload


class Owner:
    frames_ahead = 0
    claim = Claim(Urgency.STARTS, 1)
    is_silent = True

    def receive(self, message: FromDecoder) -> None: ...

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None: ...


def test_who_wants_no_audio_now_waits_and_makes_no_overload() -> None:
    time = HandTime()
    overload, owner = Overload(time.now_s), Owner()
    overload.wait_anew(owner)
    assert not overload  # who does not wait does not begin to
    overload.wait(owner)
    for is_silent, waited_s in ((True, None), (False, LOGGED_AFTER_S), (True, None)):
        owner.is_silent = is_silent
        overload.wait_anew(owner)
        time.forward(LOGGED_AFTER_S)
        overload.log_state()
        assert [*overload] == [owner]
        assert (overload.waited_s(owner), overload.wanting, overload.told_s) == (
            waited_s,
            not is_silent,
            waited_s or 0.0,
        )

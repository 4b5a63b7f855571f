"""One live stream for several sessions, without a process around it: what each gets, and what it costs the others."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import TypeVar

import numpy as np
import pytest
from msgspec import structs

from tests.support.audio_files import encoded, live_mp3, music, opus, tone, vorbis
from tests.support.decoder_driver import open_order
from tests.support.media_files import loudest_hz, samples_of
from tests.worker.sources.test_source import SourceReports
from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.frame import SAMPLE_BLOCK_BYTES, SAMPLE_RATE_HZ
from tonearm.decoder.messages import (
    SHARED_SOURCE,
    Data,
    DataFailed,
    Decoded,
    Failed,
    Opened,
    ReadRequest,
    SeekRefused,
    SeekSource,
    TitleAt,
    Titled,
)
from tonearm.worker.sources.cursor import AHEAD_SAMPLES, PACKETS_AHEAD_SAMPLES, CursorReport, Use
from tonearm.worker.sources.live_source import MOST_BEHIND_SAMPLES, LiveMember, LiveSource
from tonearm.worker.sources.pcm_store import PcmStore
from tonearm.worker.sources.source_content import DECODED_STEP_SAMPLES

_R = TypeVar("_R", bound=CursorReport)
STATION = 7
LOST = PlayFailure(FailureCode.CONNECTION_LOST, Stage.READ, "lost", "x")
# What may lie ahead of the session that needs most: a step is whole.
MOST_AHEAD = AHEAD_SAMPLES + DECODED_STEP_SAMPLES


@cache
def station() -> bytes:
    return live_mp3(music(10.0, 44_100))


class Bench(SourceReports):
    """A station of which `data` comes again and again, or once and then `failure`."""

    def __init__(self, data: bytes = b"", failure: PlayFailure | None = None) -> None:
        super().__init__()
        self._data = data or station()
        self._failure = failure
        self.titles: dict[int, str] = {}  # by the offset of the station's bytes
        order = open_order(STATION, SHARED_SOURCE, None, is_seekable=False, is_live=True)
        self.live = self.source = LiveSource(structs.replace(order, is_shared=True), self.services)
        self.live.start()

    def join(self, session: int, start_sample: int = 0, **more: int) -> LiveMember:
        order = open_order(session, 3, None, start_sample=start_sample, is_seekable=False, is_live=True)
        member = LiveMember(structs.replace(order, joins=STATION, **more), self.live, self.services)
        member.used(start_sample, Use(is_current=True))
        member.start()
        return member

    def answer(self, request: ReadRequest) -> Data | DataFailed:
        offset, length = request.offset, min(request.length, 8192)
        for at in [at for at in self.titles if at < offset + length]:
            self.live.deliver(TitleAt(STATION, SHARED_SOURCE, at, self.titles.pop(at)))
        start = offset % len(self._data) if self._failure is None else offset
        part = self._data[start : start + length]
        if part or self._failure is None:
            return Data(STATION, SHARED_SOURCE, offset, part)
        return DataFailed(STATION, SHARED_SOURCE, offset, self._failure)

    def told(self, session: int, kind: type[_R]) -> _R:
        """Waits for a report to a session."""
        while not (found := [one for one in self.reported[session] if isinstance(one, kind)]):
            self.work()
        return found[0]

    def decoded(self, member: LiveMember, up_to: int) -> PcmStore:
        while member.cursor.store.end < up_to:
            self.work()
        return member.cursor.store

    def play(self, member: LiveMember, samples: int) -> bytes:
        """What a session renders next."""
        end, pcm = member.cursor.used_up_to + samples, b""
        while (at := member.cursor.used_up_to) < end:
            count = min(SAMPLE_RATE_HZ // 5, end - at)
            pcm += self.decoded(member, at + count).read(at, count)
            member.cursor.store.release_before(at + count)
            member.used(at + count, Use(is_current=True))
        return pcm


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.live.drop()


def test_a_later_session_begins_with_what_the_others_are_about_to_hear_in_numbers_of_its_own(bench: Bench) -> None:
    first = bench.join(1)
    heard = bench.play(first, 3 * SAMPLE_RATE_HZ)
    later = bench.join(2, start_sample=1000)
    bench.told(2, Opened)
    assert later.cursor.store.start == 1000
    assert later.cursor.store.end > 1000 + AHEAD_SAMPLES // 2
    pcm = bench.play(later, SAMPLE_RATE_HZ)
    heard += bench.play(first, 2 * SAMPLE_RATE_HZ)
    began_at = heard.find(pcm) // SAMPLE_BLOCK_BYTES  # in the first one's numbers
    assert began_at > 3 * SAMPLE_RATE_HZ - MOST_AHEAD
    # It may have used all that was decoded, to the sample; and each piece is given to one after the other.
    ahead = bench.decoded(first, first.cursor.used_up_to + 1).pieces()
    newest, _ = ahead[-1]
    also_ahead = bench.decoded(later, 1000 + newest + 1 - began_at).pieces()
    assert {id(pcm) for _, pcm in ahead} <= {id(pcm) for _, pcm in also_ahead}, "the memory is shared"


def test_the_session_that_needs_most_is_decoded_for_and_the_others_have_no_more_than_that(bench: Bench) -> None:
    first, second = bench.join(1), bench.join(2)
    bench.play(first, SAMPLE_RATE_HZ)
    # It stands in front of the other one, which it may not hold up.
    bench.play(second, 6 * SAMPLE_RATE_HZ)
    assert first.cursor.store.end - first.cursor.used_up_to > 4 * SAMPLE_RATE_HZ
    assert second.cursor.store.end - second.cursor.used_up_to <= MOST_AHEAD


def test_who_falls_far_behind_keeps_what_it_has_and_goes_on_with_what_is_new(bench: Bench) -> None:
    first, behind = bench.join(1), bench.join(2)
    heard = bench.play(first, 25 * SAMPLE_RATE_HZ)
    assert behind.cursor.store.end <= MOST_BEHIND_SAMPLES + MOST_AHEAD
    assert bench.play(behind, 14 * SAMPLE_RATE_HZ) == heard[: 14 * SAMPLE_RATE_HZ * SAMPLE_BLOCK_BYTES]
    bench.play(behind, 2 * SAMPLE_RATE_HZ)
    new = bench.play(behind, SAMPLE_RATE_HZ)
    heard += bench.play(first, 4 * SAMPLE_RATE_HZ)
    assert heard.rfind(new) > 23 * SAMPLE_RATE_HZ * SAMPLE_BLOCK_BYTES


def test_each_is_told_the_title_of_what_it_begins_with_and_those_after_it(bench: Bench) -> None:
    second = 128_000 // 8
    bench.titles = {0: "One", 2 * second: "Two", 12 * second: "Three"}
    first = bench.join(1)
    bench.play(first, 6 * SAMPLE_RATE_HZ)
    later = bench.join(2, start_sample=500)
    bench.told(2, Titled)
    bench.play(first, 8 * SAMPLE_RATE_HZ)
    bench.play(later, 8 * SAMPLE_RATE_HZ)
    titles = {session: [one for one in bench.reported[session] if isinstance(one, Titled)] for session in (1, 2)}
    assert [one.title for one in titles[1]] == ["One", "Two", "Three"]
    assert [one.title for one in titles[2]] == ["Two", "Three"]
    assert titles[2][0].sample == 500
    assert abs(titles[1][1].sample - 2 * SAMPLE_RATE_HZ) < SAMPLE_RATE_HZ // 2
    distance = titles[1][2].sample - titles[2][1].sample
    assert abs(distance - (6 * SAMPLE_RATE_HZ - 500)) < 2 * SAMPLE_RATE_HZ


LINKS: dict[str, tuple[Callable[..., bytes], Callable[..., bytes]]] = {
    "another rate": (vorbis, lambda sound, **more: vorbis(sound, 48_000, **more)),
    "another number of channels": (opus, lambda sound, **more: opus(sound[:, :1], **more)),
    "another codec": (opus, partial(encoded, "ogg", "flac")),
}


@pytest.mark.parametrize(("kind", "is_whole"), [*((kind, True) for kind in LINKS), ("another rate", False)])
def test_a_station_in_ogg_plays_on_when_its_next_title_has_another_form(kind: str, is_whole: bool) -> None:
    """Stations that send files as they are have such titles. One that broke off may come back so, too."""
    first, second = LINKS[kind]
    one = first(tone(440, 3.0, 44_100 if first is vorbis else 48_000), tags={"title": "One"})
    two = second(tone(880, 3.0), tags={"title": "Two"})
    bench = Bench((one if is_whole else one[: len(one) * 2 // 3 + 7]) + two)
    pcm = samples_of(bench.play(bench.join(1), (11 if is_whole else 8) * SAMPLE_RATE_HZ))
    titles = [report for report in bench.reported[1] if isinstance(report, Titled)][:3]
    bench.live.drop()
    assert [title.title for title in titles] == ["Two", "One", "Two"]
    for title, before_hz, behind_hz in zip(titles, (440, 880, 440), (880, 440, 880), strict=True):
        assert loudest_hz(pcm[title.sample - 24_000 : title.sample - 4800]) == pytest.approx(before_hz, abs=5)
        assert loudest_hz(pcm[title.sample + 4800 : title.sample + 24_000]) == pytest.approx(behind_hz, abs=5)
    if is_whole:
        assert [title.sample / SAMPLE_RATE_HZ for title in titles] == pytest.approx([3, 6, 9], abs=0.25)


def test_who_plays_a_part_of_it_ends_alone(bench: Bench) -> None:
    part, first = bench.join(1, end_sample=SAMPLE_RATE_HZ), bench.join(2)
    bench.play(first, SAMPLE_RATE_HZ)
    report = bench.told(1, Decoded)
    part.cursor.finish(report)
    store = part.cursor.store
    assert (store.end, store.is_finished, store.is_interrupted) == (SAMPLE_RATE_HZ, True, False)
    bench.play(first, 2 * SAMPLE_RATE_HZ)


def test_the_loss_of_the_stream_reaches_each_after_its_sound_and_who_comes_then_at_once() -> None:
    bench = Bench(station()[:66_700], LOST)
    members = [bench.join(1), bench.join(2)]
    for member in members:
        bench.play(member, 3 * SAMPLE_RATE_HZ)
    for member in members:
        member.used(4 * SAMPLE_RATE_HZ, Use(is_current=True))
    for session, member in enumerate(members, 1):
        report = bench.told(session, Failed)
        assert (report.failure.code, report.gave_audio) == (FailureCode.CONNECTION_LOST, True)
        assert not member.cursor.store.is_finished
        member.cursor.finish(report)
        assert member.cursor.store.is_interrupted
    late = bench.join(3)
    report = bench.told(3, Failed)
    assert not report.gave_audio
    late.cursor.finish(report)
    assert late.cursor.has_failed


def test_bytes_that_are_no_sound_fail_for_each_before_its_first_sample() -> None:
    bench = Bench(b"no audio at all" * 10_000, LOST)
    bench.join(1)
    bench.join(2)
    assert [bench.told(session, Failed).gave_audio for session in (1, 2)] == [False, False]


def test_when_its_session_ends_by_an_error_those_who_play_it_are_told(bench: Bench) -> None:
    bench.play(bench.join(1), SAMPLE_RATE_HZ)
    bench.live.drop()
    assert bench.told(1, Failed).failure.code is FailureCode.DECODER_DIED
    order = structs.replace(open_order(2, 3, None, is_live=True), joins=STATION)
    LiveMember(order, None, bench.services).start()
    bench.told(2, Failed)


def test_a_seek_goes_on_where_it_is(bench: Bench) -> None:
    member, other = bench.join(1), bench.join(2)
    bench.play(member, SAMPLE_RATE_HZ)
    left = member.seek(SeekSource(1, 3, 4, 5 * SAMPLE_RATE_HZ))
    bench.told(1, SeekRefused)
    assert left.store.end >= SAMPLE_RATE_HZ
    assert member.cursor.store.start == SAMPLE_RATE_HZ
    assert bench.play(member, SAMPLE_RATE_HZ) == bench.play(other, 2 * SAMPLE_RATE_HZ)[-SAMPLE_RATE_HZ * 4 :]


def test_packets_are_read_once_and_decoded_for_who_reads_their_sound() -> None:
    bench = Bench(opus(music(16.0), bit_rate=64_000))
    first = bench.join(1)
    heard = bench.play(first, 3 * SAMPLE_RATE_HZ)
    passing = bench.join(2)
    later = bench.join(3)
    bench.told(3, Opened)
    pcm = bench.play(later, SAMPLE_RATE_HZ)
    heard += bench.play(first, 3 * SAMPLE_RATE_HZ)
    apart = [
        int(np.abs(samples_of(heard)[at : at + len(pcm) // 4].astype(int) - samples_of(pcm)).max())
        for at in range(648, len(heard) // 4 - len(pcm) // 4, 960)  # packets begin there
    ]
    assert min(apart) <= 2, "the decoder had settled"
    assert passing.cursor.store.end >= SAMPLE_RATE_HZ
    assert passing.cursor.store.end <= PACKETS_AHEAD_SAMPLES + 4 * SAMPLE_RATE_HZ
    bench.live.drop()

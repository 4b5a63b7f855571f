"""A session's plans and buffer under random orders, against a simulated decoder whose messages take their time.

Whatever comes in between (other plans, replies to old ones, processes that die, rests), the frames that are sent have
to be the samples of the tracks, one after the other, none doubled, none left out, and nothing of a plan that a cut
replaced.
"""

from collections import deque
from typing import TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.support.examples import examples
from tests.support.simulated_decoder import Content, SimulatedDecoder, Track
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_SAMPLES, NO_OUTPUTS, PCM, PCM_ONLY, Output, Outputs
from tonearm.decoder.messages import (
    Audio,
    Burst,
    CrossfadeOrder,
    Decoded,
    DropSource,
    Failed,
    Flush,
    Grant,
    OpenSession,
    Plan,
)
from tonearm.decoder.session.frame_buffer import SentFrame
from tonearm.decoder.session.orders import Bursts
from tonearm.decoder.session.plan_moves import (
    Detached,
    Mix,
    OpenSourceAt,
    Order,
    Program,
    RenewSession,
    Resting,
    SourceBegan,
    SourceEnded,
    SourceFaded,
    Steady,
)
from tonearm.decoder.session.plan_state import PlanState
from tonearm.protocol.framing import payload_of

ToDecoder: TypeAlias = OpenSession | Plan | Grant | Flush | Burst | OpenSourceAt | DropSource
ToNode: TypeAlias = Audio | Decoded | Failed

SAMPLES = st.sampled_from([0, 1, 300, 959, 960, 961, 1919, 9600, 12_345, 40_000])
TRACKS = st.builds(Track, SAMPLES, st.booleans())


class PlanStateMachine(RuleBasedStateMachine):
    """Stands in for the player and for the shell around the plan."""

    def __init__(self) -> None:
        super().__init__()
        self.until_tick_s = 0.01
        self.plan = PlanState(lambda: self.until_tick_s, Bursts())
        self.plan.wake()
        self.buffer = self.plan.buffer
        self.sessions = 0
        self.tracks: dict[int, Track] = {}
        self.contents: list[Content] = []
        # What the player wants
        self.current: int | None = None
        self.next: int | None = None
        self.filters = Filters()
        self.crossfade: CrossfadeOrder | None = None
        # What was sent
        self.sent = 0
        self.next_frame = 0
        self.first_frame_of_session = 0
        self.has_cut = False  # since the session was opened
        self.is_cut_ahead = False  # since the last frame
        self.heard: dict[int, int] = {}  # up to which sample of each source
        self.crossfades: dict[int, list[int]] = {}  # where each source was asked to fade into the next one
        self.fading: set[int] = set()  # sources that go on under the current one
        self.lost_fades: set[int] = set()  # sources that were current when a session was lost
        self.ends_in_next_frame: int | None = None
        self.leaves_somewhere: tuple[int, list[int]] | None = None  # a source that ends by the next frame, and where
        self.ended: set[int] = set()
        self.last: SentFrame | None = None
        self.last_content: Content | None = None
        self.may_jump = True  # the filters, because no frame was there to glide from
        self.may_jump_at: set[int] = set()  # where sessions began
        self.open_session()

    # The player

    @rule(track=TRACKS, next_track=st.none() | TRACKS)
    def cut_to_another_track(self, track: Track, next_track: Track | None) -> None:
        self.want(self.add(track), next_track and self.add(next_track))

    @rule(fade_samples=st.sampled_from([0, 1, 5_000, 40_000]), goes_well=st.booleans())
    def skip(self, fade_samples: int, goes_well: bool) -> None:
        """With a fade, the sound before goes on under the next track, until it is reported as faded."""
        if goes_well:
            self.exchange()
        fades = fade_samples > 0 and self.current is not None and self.next is not None
        if self.current is not None and fades:
            self.fading.add(self.current)
        self.want(self.next, None, CrossfadeOrder(0, fade_samples, "linear") if fades else None)

    @precondition(lambda self: self.current is not None)
    @rule(sample=SAMPLES)
    def seek(self, sample: int) -> None:
        """Another source of the same track takes the place of the current one; the next one stays."""
        assert self.current is not None
        track = self.tracks[self.current]
        self.want(self.add(track, min(sample, track.samples - 1) if track.samples else 0), self.next)

    @precondition(lambda self: self.next is not None)
    @rule(at_sample=SAMPLES, samples=st.sampled_from([960, 5_000, 40_000]))
    def fade_into_the_next_track(self, at_sample: int, samples: int) -> None:
        assert self.current is not None
        self.crossfade = CrossfadeOrder(at_sample, samples, "linear")
        self.crossfades.setdefault(self.current, []).append(at_sample)
        self.play()

    @rule(at_sample=st.sampled_from([960, 2_000, 9_600, 20_000]), samples=st.sampled_from([960, 5_000, 20_000]))
    def two_long_tracks_that_fade(self, at_sample: int, samples: int) -> None:
        """As it mostly is: otherwise hardly any crossfade was ever heard."""
        self.cut_to_another_track(Track(40_000), Track(40_000))
        if not self.has_session:
            self.a_process_is_there()
        self.exchange()
        if self.next is not None:
            self.fade_into_the_next_track(at_sample, samples)
        self.exchange()

    @rule(fades_at=st.sampled_from([None, 960, 2_000, 9_600]), frames=st.integers(1, 12))
    def a_change_comes_late(self, fades_at: int | None, frames: int) -> None:
        """Frames of the plan before it were sent meanwhile, maybe those in which another fade begins."""
        if fades_at is not None:
            self.two_long_tracks_that_fade(fades_at, 5_000)
        self.all_goes_its_way()
        if fades_at is not None and self.next is not None:
            self.fade_into_the_next_track(20_000, 5_000)
        else:
            self.change_filters(0.005)
        self.tick(frames)
        self.exchange()

    @rule(fades_at=st.sampled_from([None, 960, 9_600]), sent=st.integers(0, 4))
    def the_process_dies_before_what_joins_is_sent(self, fades_at: int | None, sent: int) -> None:
        if fades_at is None:
            self.cut_to_another_track(Track(5_000), Track(40_000))
        else:
            self.two_long_tracks_that_fade(fades_at, 5_000)
        self.exchange()
        self.tick(sent)
        self.the_process_dies()
        self.open_session()

    @rule(track=st.none() | TRACKS)
    def replace_the_next_track(self, track: Track | None) -> None:
        if self.current is not None:
            self.want(self.current, track and self.add(track))

    @rule(until_tick_s=st.sampled_from([0.0, 0.005, 0.019]))
    def change_filters(self, until_tick_s: float) -> None:
        self.until_tick_s = until_tick_s
        self.filters = Filters(volume=self.filters.volume + 2**-10)
        self.play()

    @rule(outputs=st.sampled_from([NO_OUTPUTS, PCM_ONLY, frozenset({PCM, Output("opus")})]))
    def listen(self, outputs: Outputs) -> None:
        self.do(self.plan.listen(outputs))

    @rule(frames=st.integers(1, 12))
    def send(self, frames: int) -> None:
        self.tick(frames)
        self.grant()

    @rule()
    def fall_silent(self) -> None:
        """As a pause does, to what was cut to and not heard yet."""
        self.do(self.plan.fall_silent())

    @rule()
    def rest(self) -> None:
        self.close_session()
        self.plan.rest()
        assert not self.buffer.frames_ahead, "frames of a session that rests"
        self.take_faded()
        self.may_jump = True

    # The decoder and the ways to it

    @rule(count=st.integers(1, 4))
    def orders_reach_the_decoder(self, count: int) -> None:
        for _ in range(min(count, len(self.to_decoder))):
            self.deliver(self.to_decoder.popleft())

    @rule(count=st.integers(1, 4))
    def replies_reach_the_node(self, count: int) -> None:
        for _ in range(min(count, len(self.to_node))):
            self.take(self.to_node.popleft())

    @rule()
    def a_source_is_opened(self) -> None:
        if self.opening:
            source, start_sample = self.opening.popitem()
            self.decoder.open(source, start_sample)

    @rule(samples=st.sampled_from([500, 5_000, 100_000]))
    def decode(self, samples: int) -> None:
        for source in self.tracks:
            self.to_node += self.decoder.decode(source, samples)

    @precondition(lambda self: self.has_session)
    @rule()
    def render(self) -> None:
        if not any(isinstance(order, OpenSession) for order in self.to_decoder):
            self.to_node += self.decoder.render()

    @rule()
    def all_goes_its_way(self) -> None:
        """As it mostly is: otherwise too few frames were ever sent."""
        self.exchange()
        self.send(8)
        self.exchange()

    @precondition(lambda self: not isinstance(self.plan.state, Resting))
    @rule()
    def the_process_dies(self) -> None:
        self.close_session()
        self.plan.lose()
        self.take_faded()

    @precondition(lambda self: not self.has_session)
    @rule()
    def a_process_is_there(self) -> None:
        if isinstance(self.plan.state, Resting):
            self.plan.wake()
        self.open_session()

    # What must hold in the end

    def teardown(self) -> None:
        """When nothing disturbs any more, everything is played to its end, with the filters that were set last."""
        if not self.has_session:
            self.a_process_is_there()
        self.listen(PCM_ONLY)
        for _ in range(200):
            self.exchange()
            self.tick(5)
            if isinstance(self.plan.state, Steady) and not self.buffer.frames_ahead and self.current is None:
                break
        assert self.current is None, "a track was not played to its end"
        self.leave(self.next)
        self.next = None
        self.the_last_plan_is_heard()
        assert not self.fading, "a source that faded is still open"

    def the_last_plan_is_heard(self) -> None:
        self.cut_to_another_track(Track(40 * FRAME_SAMPLES), None)
        self.change_filters(0.0)
        before = self.sent
        while self.current is not None and self.sent < before + 100:
            self.exchange()
            self.tick(1)
            if self.sent > before + 3:
                assert self.last is not None
                assert self.last.payloads, "silence for a listener"
                assert self.last_content is not None
                assert self.last_content.filters == self.filters
        assert self.sent == before + 40

    # How the player and the shell do it

    @property
    def has_session(self) -> bool:
        return not isinstance(self.plan.state, (Detached, Resting))

    def add(self, track: Track, start_sample: int = 0) -> int:
        source = len(self.tracks) + 1
        self.tracks[source] = track
        if isinstance(self.plan.state, Resting):
            self.a_process_is_there()
        self.plan.add(source, start_sample)
        self.heard[source] = start_sample
        if self.has_session:
            self.opening[source] = start_sample
        return source

    def leave(self, source: int | None) -> None:
        if source is not None:
            self.plan.drop(source)
            if self.opening.pop(source, None) is None:
                self.to_decoder.append(DropSource(self.sessions, source))

    def want(self, current: int | None, next: int | None, cut_fade: CrossfadeOrder | None = None) -> None:
        """Other sources, without a crossfade. Those that are not wanted any more are left."""
        before = self.current, self.next
        self.current, self.next, self.crossfade = current, next, None
        for source in before:
            if source not in (current, next, *self.fading):
                self.leave(source)
        self.play(cut_fade)

    def play(self, cut_fade: CrossfadeOrder | None = None) -> None:
        if self.plan.current != self.current:
            self.may_jump = self.has_cut = self.is_cut_ahead = True
            self.ends_in_next_frame = self.leaves_somewhere = None
        self.do(self.plan.play(Program(self.current, self.next, Mix(self.filters, self.crossfade)), cut_fade))

    def take_faded(self) -> None:
        while (source := self.plan.take_faded()) is not None:
            self.fading.remove(source)
            self.leave(source)

    def do(self, orders: tuple[Order, ...]) -> None:
        for order in orders:
            assert self.has_session
            if isinstance(order, OpenSourceAt):
                self.opening[order.source] = order.start_sample
            elif isinstance(order, RenewSession):
                self.close_session()
                self.plan.lose()
                self.take_faded()
                self.open_session()
            else:
                assert order.session == self.sessions
                if isinstance(order, OpenSession):
                    self.first_frame_of_session = order.first_frame
                    self.may_jump_at.add(order.first_frame)
                self.to_decoder.append(order)
        self.take_faded()

    def grant(self) -> None:
        grant = self.plan.grant()
        self.do(() if grant is None else (grant,))

    def open_session(self) -> None:
        self.close_session()
        self.sessions += 1
        self.may_jump = True
        if self.has_cut:
            self.next_frame = max(self.next_frame, self.buffer.next_frame)
        self.has_cut = False
        self.do(self.plan.session_opened(self.sessions))

    def close_session(self) -> None:
        if self.current is not None:
            self.lost_fades.add(self.current)
        self.to_decoder: deque[ToDecoder] = deque()
        self.to_node: deque[ToNode] = deque()
        self.opening: dict[int, int] = {}
        self.decoder = SimulatedDecoder(self.tracks, self.contents)

    def deliver(self, order: ToDecoder) -> None:
        match order:
            case OpenSourceAt():
                self.decoder.open(order.source, order.start_sample)
            case DropSource():
                self.decoder.drop(order.source)
            case _:
                self.decoder.receive(order)

    def take(self, message: ToNode) -> None:
        match message:
            case Audio():
                self.may_jump |= not self.buffer.frames_ahead
                self.do(self.plan.audio(message))
                self.take_complete_ends()
            case Decoded():
                self.plan.decoded(message.source)
            case Failed(gave_audio=True):
                self.plan.interrupted(message.source, message.failure)
            case Failed(source=source) if source in (self.current, self.next):
                self.want(self.next if source == self.current else self.current, None)

    def exchange(self) -> None:
        """Everything that is on its way arrives, and everything that can be decoded is."""
        if not self.has_session:
            return
        while self.to_decoder:
            self.deliver(self.to_decoder.popleft())
        while self.opening:
            self.a_source_is_opened()
        self.decode(100_000)
        self.render()
        while self.to_node:
            self.take(self.to_node.popleft())

    # Sending, and what must hold for all that is sent

    def tick(self, times: int) -> None:
        for _ in range(times):
            if not isinstance(self.plan.state, Resting):
                self.tick_once()

    def tick_once(self) -> None:
        message = self.buffer.pop_plain()
        if message is not None:
            assert self.last is not None
            sample = self.last.position_samples + FRAME_SAMPLES
            self.check(SentFrame(self.last.forms, message, self.last.source, sample))
            assert self.plan.take_complete_end() is None, "an end that was not reported in its tick"
            return
        if not self.buffer.frames_ahead:
            self.do(self.plan.underrun())
            return
        while (event := self.plan.take_event()) is not None:
            self.take_up(event)
        if not self.buffer.frames_ahead:
            return
        self.check(self.buffer.pop())
        self.take_complete_ends()
        self.buffer.allow_plain(100)

    def take_complete_ends(self) -> None:
        while (event := self.plan.take_complete_end()) is not None:
            self.take_up(event)

    def take_up(self, event: SourceBegan | SourceEnded | SourceFaded) -> None:
        source = event.source
        if isinstance(event, SourceFaded):
            self.fading.remove(source)
            self.leave(source)
            return
        assert source == self.current
        if isinstance(event, SourceBegan):
            return
        assert source not in self.ended
        self.ended.add(source)
        joined = self.plan.current
        left_at = [self.tracks[source].samples]
        if event.fades:
            assert joined is not None
            left_at = self.crossfades[source]
        elif source in self.lost_fades and joined is not None:
            left_at += self.crossfades.get(source, [])  # what was to fade under the next track is lost
        missing = min((at - self.heard[source] for at in left_at if at >= self.heard[source]), default=-1)
        if joined is None:
            assert missing == 0, "an end before the last sample"
        else:
            assert joined == self.next, "another track than the next one joins"
            assert 0 <= missing < FRAME_SAMPLES
            self.ends_in_next_frame = source if missing else None
        if event.fades or len(left_at) > 1:  # of several places that were asked for, the plan in force decides
            self.leaves_somewhere = source, left_at
            self.ends_in_next_frame = None
        if event.fades:
            self.fading.add(source)
        else:
            breaks = self.tracks[source].breaks
            is_at_end = self.heard[source] + missing == self.tracks[source].samples
            if len(left_at) > 1:  # in which of them is known when the frame was sent
                assert event.failure is None or breaks
            else:
                assert (event.failure is not None) == (is_at_end and breaks)
        self.want(self.next, None)

    def check(self, frame: SentFrame) -> None:
        content = self.content_of(frame)
        # A session begins after the buffered frames. When a cut voids those, it is heard from that frame on.
        expected = max(self.next_frame, self.first_frame_of_session) if self.has_cut else self.next_frame
        assert content.frame == expected == self.buffer.next_frame - 1, "a frame left out or doubled"
        assert content.position == (frame.source, frame.position_samples)
        assert frame.is_cut or not self.is_cut_ahead
        self.is_cut_ahead = False
        sources = [piece.source for piece in content.pieces]
        if self.leaves_somewhere is not None and sources[0] == self.leaves_somewhere[0] != self.current:
            self.ends_in_next_frame = sources[0]
        assert sources == [source for source in (self.ends_in_next_frame, self.current) if source is not None]
        for piece in content.pieces:
            assert piece.sample == self.heard[piece.source], "samples left out or doubled"
            self.heard[piece.source] = piece.sample + piece.samples
        if self.leaves_somewhere is not None:
            source, left_at = self.leaves_somewhere
            assert self.heard[source] in left_at, "left where no crossfade was asked for"
            self.leaves_somewhere = None
        last = content.pieces[-1]
        if sum(piece.samples for piece in content.pieces) < FRAME_SAMPLES:
            assert last.sample + last.samples == self.tracks[last.source].samples, "silence in the middle of a track"
        before = self.last_content
        if before is not None and content.filters != before.filters and frame.payloads:
            assert content.filters.volume > before.filters.volume, "filters of a plan that was replaced"
            assert content.glides or self.may_jump or content.frame in self.may_jump_at, (
                "the sound jumps to other filters"
            )
        if not frame.payloads:
            self.may_jump = True
        elif before is not None and content.filters != before.filters:
            self.may_jump = False
        self.ends_in_next_frame = None
        self.last, self.last_content = frame, content
        self.sent += 1
        self.next_frame = content.frame + 1

    def content_of(self, frame: SentFrame) -> Content:
        if frame.payloads:
            assert isinstance(frame.payloads, bytes), "only PCM is listened to"
            return self.contents[int.from_bytes(payload_of(frame.payloads), "little")]
        fitting = [
            content
            for content in self.contents
            if content.frame == self.buffer.next_frame - 1
            and content.position == (frame.source, frame.position_samples)
        ]
        assert fitting, "a frame that was not rendered"
        return fitting[-1]


PlanStateMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=60)
TestPlanStateModel = PlanStateMachine.TestCase

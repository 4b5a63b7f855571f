"""A player with time and a decoder that are turned by hand: for what happens in between, where real ones seldom are.
And one with simulated decoders that take their time: for hours of silence in a second."""

import asyncio
import contextlib
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from msgspec import structs

from tests.support.hand_time import HandTime
from tests.support.settling import Settling
from tests.support.simulated_decoder import Content, SimulatedDecoder
from tests.support.simulated_decoder import Track as TrueTrack
from tests.support.sinks import MemoryEventClient, MemoryListener
from tests.support.tracks import FILE_MISSING, make_track
from tonearm.core.crossfade import CrossfadeEdit
from tonearm.core.errors import NoPrevious, NotSeekable
from tonearm.core.failure import PlayError, PlayFailure, own_error
from tonearm.core.filters import FilterChange, Timescale
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, SAMPLE_RATE_HZ, ms_of_samples
from tonearm.core.opened_source import PLACE_AT_RESOLVER, RESOLVING, OpenedSource, ReportWait
from tonearm.core.play_queue import LoopMode
from tonearm.core.playback_requests import Requests
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import (
    FIRST_OVERLAY_SOURCE,
    Audio,
    Burst,
    Decoded,
    DropSource,
    Failed,
    FirstAudio,
    Flush,
    FromDecoder,
    FromNode,
    Grant,
    Mark,
    MarkKind,
    Opened,
    OpenSession,
    OpenSource,
    Plan,
    SeekSource,
    SessionFailed,
    Titled,
)
from tonearm.decoder.opening.live_carriers import LiveCarriers
from tonearm.decoder.pool.pool import DecoderPool, PoolSession
from tonearm.decoder.pool.process import SessionOwner
from tonearm.player.clients.event_feed import EventFeed
from tonearm.player.clock import Clock
from tonearm.player.player import Player
from tonearm.player.player_services import PlayerServices, PlayerSettings
from tonearm.protocol.wire_model import json_bytes
from tonearm.sources.detached_threads import DetachedThreads
from tonearm.sources.local_file import FileReader

BEGIN, END, INTERRUPTED = MarkKind.BEGIN, MarkKind.END, MarkKind.INTERRUPTED

STEP_S = 0.02
OPENING_S = 0.03
AHEAD_SAMPLES = 2 * SAMPLE_RATE_HZ

_M = TypeVar("_M", bound=FromNode)


def frame(number: int, voice: int = 0) -> bytes:
    """A frame's PCM that tells its number and what it was rendered as."""
    return (number % 256).to_bytes(1, "little") * 2 + bytes((voice,)) * (FRAME_BYTES - 2)


class HandSession(PoolSession):
    """Writes down what the node says. What comes of it, the test says, or `take` and `render` of another kind."""

    process_id = 1

    def __init__(self, session_id: int, pool: "HandPool") -> None:
        self.id = session_id
        self._pool = pool
        self.orders: list[FromNode] = []
        self._taken = 0

    def send(self, message: FromNode, descriptor: int | None = None) -> None:
        if descriptor is not None:
            os.close(descriptor)
        self.orders.append(message)

    def close(self) -> None:
        self._pool.owners.pop(self.id, None)

    def say(self, message: FromDecoder) -> None:
        """To the player, as long as that has the session."""
        if (owner := self._pool.owners.get(self.id)) is not None:
            owner.receive(message)

    def work(self) -> bool:
        """Does what the node has said. True when there was something to do."""
        orders = self.orders[self._taken :]
        self._taken += len(orders)
        for order in orders:
            self.take(order)
        return self.render() or bool(orders)

    def take(self, order: FromNode) -> None: ...

    def render(self) -> bool:
        """True when there was something to render."""
        return False


class HandPool(DecoderPool):
    """Without any process. While `is_empty` it has no room, as after a death; while `is_full`, as under overload."""

    def __init__(self) -> None:
        super().__init__(1, 1024)
        self.sessions: list[HandSession] = []
        self.owners: dict[int, SessionOwner] = {}
        self.waiting: list[SessionOwner] = []
        self.is_empty = self.is_full = False

    def waited_s(self, owner: SessionOwner) -> float | None:
        return 7.0 if self.is_full and owner in self.waiting else None

    def open(self, owner: SessionOwner) -> PoolSession | None:
        if self.is_empty or self.is_full:
            self.waiting.append(owner)
            return None
        session = self.new_session(len(self.sessions) + 1)
        self.sessions.append(session)
        self.owners[session.id] = owner
        return session

    def new_session(self, session_id: int) -> HandSession:
        return HandSession(session_id, self)

    @property
    def working(self) -> list[HandSession]:
        return [session for session in self.sessions if session.id in self.owners]

    def forget(self, owner: SessionOwner) -> None:
        self.waiting = [waiting for waiting in self.waiting if waiting is not owner]

    def lose(self, suspect_sources: tuple[int, ...] = ()) -> None:
        """The process dies and is replaced."""
        lost = [*self.owners.values(), *self.waiting]
        self.owners.clear()
        self.waiting.clear()
        for owner in lost:
            owner.process_lost(suspect_sources)


class HandOpener:
    """Every URI opens, but those in which `missing` stands, and those that wait for ever: the ones with `silent` for
    an answer, the ones with `queued` for a place at the resolver until `free` is set, then for the page."""

    def __init__(self) -> None:
        self.free = asyncio.Event()

    async def open(self, uri: SourceUri, report_wait: ReportWait) -> OpenedSource:
        if "missing" in uri.given:
            raise PlayError(FILE_MISSING)
        if "queued" in uri.given:
            report_wait(PLACE_AT_RESOLVER)
            await self.free.wait()
            report_wait(RESOLVING)
            await asyncio.Event().wait()
        if "silent" in uri.given:
            await asyncio.Event().wait()
        return opened_source(uri)

    def is_suspect(self, uri: SourceUri) -> bool:
        return False


def opened_source(uri: SourceUri, name: str = "null") -> OpenedSource:
    """There is nothing in it: what a decoder would make of it, the test says."""
    reader = FileReader(os.open("/dev/null", os.O_RDONLY), DetachedThreads(1))
    return OpenedSource(uri=uri, reader=reader, name=name, size_bytes=1000, is_seekable=True)


class HandSuspects:
    def __init__(self) -> None:
        self.uris: list[str] = []

    def add(self, uri: SourceUri) -> None:
        self.uris.append(uri.given)


class PlayerBench:
    """A player `p` with one listener, one event client, and the tracks named, a word each. It `wait_ms` for its first
    listener."""

    after_tick_s = 0.0  # of the clock: when the player is made

    def __init__(
        self,
        *names: str,
        wait_ms: int = 1000,
        time: HandTime | None = None,
        pool: HandPool | None = None,
        opener: HandOpener | None = None,
    ) -> None:
        self._settling = Settling()
        self.time = time or HandTime()
        self.pool = pool or HandPool()
        self.suspects = HandSuspects()
        self.opener = opener or HandOpener()
        self.clock = Clock(self.time.now_s, self.time.call_later)
        self.time.forward(self.after_tick_s)
        self.services = PlayerServices(
            PlayerSettings(wait_ms, max_waiting_tracks=100_000, max_listeners=10),
            pool=self.pool,
            opener=self.opener,
            clock=self.clock,
            suspect=self.suspects.add,
            wall_ms=lambda: round(self.time.now_s() * 1000),
            json_bytes=json_bytes,
            call_later=self.time.call_later,
            carriers=LiveCarriers(lambda uri: None),
            event_feed=EventFeed(self.time.call_later, lambda: 0),
        )
        self.player = Player("p", self.new_track(names[0]), {}, self.services)
        self.listener = MemoryListener()
        self.events = MemoryEventClient()
        self.player.subscribe(self.events, None, False)
        for name in names[1:]:
            self.player.do(Requests.enqueue, self.new_track(name))

    def new_track(self, name: str) -> Track:
        return make_track(name)

    def listen(self) -> MemoryListener:
        self.player.attach(self.listener)
        return self.listener

    def tick(self, frames: int = 1) -> None:
        self.time.forward(frames * 0.02)

    async def settle(self) -> bool:
        """Lets openings come to their end. True when there was something to do."""
        return await self._settling.settle()

    async def pump(self) -> None:
        """Lets the decoder do what the node has told it, and the node take in what comes of it."""
        for _ in range(4):
            goes_on = await self.settle()
            for session in self.pool.working:
                goes_on |= session.work()
            if not goes_on:
                return

    async def ticks(self, frames: int) -> None:
        """So many ticks, with a decoder that is quick."""
        for _ in range(frames):
            self.tick()
            await self.pump()

    async def lose(self) -> None:
        """The process dies, and what comes of that is done."""
        self.pool.lose()
        await self.settle()

    def ask(self, what: str, ms: int = 0, name: str = "more") -> None:
        """What a step of a model asks for, with a place, length or volume, and with a track."""
        player = self.player
        match what:
            case "pause" | "play" | "skip" | "stop":
                player.do(getattr(Requests, what))
            case "enqueue":
                player.do(Requests.enqueue, self.new_track(name))
            case "first":
                player.do(Requests.enqueue, self.new_track(name), index=0)
            case "replace":
                player.do(Requests.replace, self.new_track(name))
            case "remove" if player.queue.tracks:
                player.do(Requests.remove, player.queue.tracks[0].id)
            case "previous":
                with contextlib.suppress(NoPrevious):
                    player.do(Requests.previous)
            case "seek":
                with contextlib.suppress(NotSeekable):  # its source may be missing
                    player.seek(ms)
            case "none" | "track" | "queue":
                player.do(Requests.set_loop, LoopMode(what))
            case "fade" | "fade on skip":
                on_skip = True if what == "fade on skip" else None
                player.do(Requests.change_crossfade, CrossfadeEdit(duration_ms=ms, on_skip=on_skip))
            case "volume":
                player.do(Requests.change_filters, FilterChange(volume=ms / 50_000))
            case "faster" | "as it is":
                timescale = Timescale(speed=1.25 if what == "faster" else 1.0)
                player.do(Requests.change_filters, FilterChange(effects={"timescale": timescale}))

    # What the node said

    @property
    def session(self) -> HandSession:
        return self.pool.sessions[-1]

    def orders(self, kind: type[_M]) -> list[_M]:
        return [order for order in self.session.orders if isinstance(order, kind)]

    @property
    def plan(self) -> Plan:
        return self.orders(Plan)[-1]

    @property
    def started_at(self) -> dict[int, int]:
        """The sources that this session was told to open, and from which sample."""
        return {order.source: order.start_sample for order in self.orders(OpenSource)}

    @property
    def epoch(self) -> int:
        """The epoch of the newest plan, or of the session when it has none yet."""
        plans = self.orders(Plan)
        return plans[-1].epoch if plans else self.orders(OpenSession)[-1].epoch

    # What the decoder says

    def opened(self, source: int, length_ms: int = 60_000) -> None:
        self.session.say(Opened(self.session.id, source, SourceFacts(length_ms=length_ms, is_seekable=True)))

    def opened_live(self, source: int) -> None:
        facts = SourceFacts(is_stream=True).of_station("Test FM")
        self.session.say(Opened(self.session.id, source, facts))

    def titled(self, source: int, frame: int, title: str) -> None:
        """The source has this title from the beginning of a frame on, as long as it began in frame 0."""
        self.session.say(Titled(self.session.id, source, frame * FRAME_SAMPLES, title))

    def decoded(self, source: int) -> None:
        self.session.say(Decoded(self.session.id, source))

    def failed(self, source: int, failure: PlayFailure, *, gave_audio: bool = False) -> None:
        self.session.say(Failed(self.session.id, source, failure, gave_audio))

    def session_failed(self, source: int) -> None:
        """As the decoder does it, it is gone."""
        self.session.say(SessionFailed(self.session.id, source, own_error(LookupError("x"))))

    def audio(
        self,
        first: int,
        frames: int,
        source: int = 1,
        *,
        position: int | None = None,
        marks: Sequence[tuple[MarkKind, int, int]] = (),
        voice: int = 0,
    ) -> None:
        """Frames of the newest plan. Without `position`, the source began in frame 0."""
        sample = first * FRAME_SAMPLES if position is None else position
        pcm = b"".join(frame(number, voice) for number in range(first, first + frames))
        told = tuple(Mark(*mark) for mark in marks)
        self.session.say(Audio(self.session.id, self.epoch, first, frames, source, sample, told, pcm, 1.0))

    def begin(self, source: int = 1, frames: int = 10, *, voice: int = 0) -> None:
        """A source opens, and its first frames are here, from where the newest plan begins."""
        self.opened(source)
        first = self.plan.at_frame
        self.audio(first, frames, source, position=0, marks=[(BEGIN, first, source)], voice=voice)

    def start(self, frames: int = 10) -> None:
        """The first track begins for a listener."""
        self.listen()
        self.begin(frames=frames)


def playing(*names: str, frames: int = 10, sent: int = 0) -> PlayerBench:
    """So many frames of its first track are here, and `sent` ticks have passed."""
    bench = PlayerBench(*names)
    bench.start(frames)
    bench.tick(sent)
    return bench


# A simulated decoder


class Shelf(HandOpener):
    """What URIs lead to, by name. A track without samples is missing. `claims`: lengths that its headers give, where
    they are wrong."""

    def __init__(self, tracks: Mapping[str, TrueTrack], *, has_exact_lengths: bool) -> None:
        super().__init__()
        self.tracks = dict(tracks)
        self.claims: dict[str, int] = {}
        self.has_exact_lengths = has_exact_lengths
        self.opened: list[str] = []

    async def open(self, uri: SourceUri, report_wait: ReportWait) -> OpenedSource:
        name = _name_of(uri)
        if name not in self.tracks or not self.tracks[name].samples:
            raise PlayError(FILE_MISSING)
        self.opened.append(name)
        return opened_source(uri, name)

    def facts(self, name: str) -> SourceFacts:
        length_ms = ms_of_samples(self.claims.get(name, self.tracks[name].samples))
        return SourceFacts(length_ms, is_seekable=True, is_length_exact=self.has_exact_lengths, probe_name="wav")


def _name_of(uri: SourceUri) -> str:
    return uri.given.rpartition("/")[2].removesuffix(".mp3")


class SimulatedSession(HandSession):
    def __init__(self, session_id: int, pool: "SimulatedPool") -> None:
        super().__init__(session_id, pool)
        self._node = pool
        self._tracks: dict[int, TrueTrack] = {}
        self._decoder = SimulatedDecoder(self._tracks, pool.contents)
        self._opened: dict[int, OpenSource] = {}
        self._opening: list[tuple[float, OpenSource]] = []

    def take(self, order: FromNode) -> None:
        match order:
            case OpenSource():
                self._open(order)
            case DropSource():
                self._opening = [opening for opening in self._opening if opening[1].source != order.source]
                self._decoder.drop(order.source)
            case SeekSource():
                self._seek(order)
            case OpenSession() | Plan() | Grant() | Flush() | Burst():
                self._decoder.receive(order)

    def render(self) -> bool:
        reports: list[FromDecoder] = []
        for due_s, order in tuple(self._opening):
            if due_s <= self._node.time.now_s():
                self._opening.remove((due_s, order))
                self._opened[order.source] = order
                track = self._node.shelf.tracks[order.name]
                if order.end_sample is not None and order.end_sample < track.samples:
                    track = TrueTrack(order.end_sample)
                self._tracks[order.source] = track
                self._decoder.open(order.source, order.start_sample)
                reports.append(Opened(self.id, order.source, self._node.shelf.facts(order.name)))
                if order.source >= FIRST_OVERLAY_SOURCE:
                    reports.append(FirstAudio(self.id, order.source))
        reports += self._decoder.decode_ahead(AHEAD_SAMPLES)
        for report in itertools.chain(reports, self._decoder.render()):
            self.say(report)
        return False  # what comes of it is for the next step

    def _open(self, order: OpenSource) -> None:
        self._node.names[order.source] = order.name
        self._opening.append((self._node.time.now_s() + self._node.opening_s, order))

    def _seek(self, order: SeekSource) -> None:
        """The source goes on under another number. That takes as long as to open it, so that it makes no difference
        whether a player has it open."""
        order_before = self._opened.get(order.source)
        for opening in self._opening:
            if opening[1].source == order.source:
                order_before = opening[1]
        assert order_before is not None
        self._opening = [opening for opening in self._opening if opening[1].source != order.source]
        self._open(structs.replace(order_before, source=order.new_source, start_sample=order.start_sample))
        self._decoder.drop(order.source)


class SimulatedPool(HandPool):
    """`opening_s`: how long a decoder takes to open a source. `contents`: all that was ever rendered."""

    def __init__(self, time: HandTime, shelf: Shelf) -> None:
        super().__init__()
        self.time = time
        self.shelf = shelf
        self.opening_s = OPENING_S
        self.contents: list[Content] = []
        self.names: dict[int, str] = {}  # of the tracks, by source

    def new_session(self, session_id: int) -> HandSession:
        return SimulatedSession(session_id, self)


class SleepBench(PlayerBench):
    """A player without listeners whose first listener was waited for in vain. With `sleeps` False the lengths of its
    tracks are estimates, so that it stays awake for the last minute of each. With `has_files` they are local files,
    else behind http."""

    pool: SimulatedPool
    after_tick_s = (
        0.0025  # all that is asked and done falls between two ticks, whichever of the clock's phases they are
    )

    def __init__(
        self,
        tracks: Mapping[str, TrueTrack],
        *names: str,
        sleeps: bool = True,
        has_files: bool = False,
    ) -> None:
        self.has_files = has_files
        self.track_ids: list[str] = []
        time = HandTime()
        self.shelf = Shelf(tracks, has_exact_lengths=sleeps)
        pool = SimulatedPool(time, self.shelf)
        super().__init__(*names, wait_ms=0, time=time, pool=pool, opener=self.shelf)

    def new_track(self, name: str) -> Track:
        """A track of its own, also where another one has the same source, or a part of it, as in `a#t=10,20`. They are
        numbered, for two benches that do the same to compare."""
        name, _, part = name.partition("#t=")
        self.track_ids.append(f"track {len(self.track_ids) + 1}")
        track = replace(make_track(name), id=self.track_ids[-1])
        if self.has_files:
            track = replace(track, uri=parse_source_uri(f"/music/{name}.mp3"))
        if not part:
            return track
        start_s, _, end_s = part.partition(",")
        return replace(track, start_ms=int(start_s) * 1000, end_ms=int(end_s) * 1000 if end_s else None)

    @property
    def is_asleep(self) -> bool:
        return not self.pool.owners

    @property
    def title(self) -> str:
        return self.player.status().track.info.title

    @property
    def position_ms(self) -> int:
        return self.player.status().position_ms

    async def run(self, seconds: float) -> None:
        await self.ticks(round(seconds / STEP_S))

    def heard(self, listener: MemoryListener) -> list[Content]:
        """What the listener's frames hold."""
        return [self.pool.contents[int.from_bytes(message, "little")] for message in listener.messages]

    def joints(self, listener: MemoryListener) -> list[tuple[int, int]]:
        """Where the listener heard one source left for another, and where that began."""
        pieces = [piece for content in self.heard(listener) for piece in content.pieces]
        pairs = itertools.pairwise(pieces)
        return [(one.sample + one.samples, next.sample) for one, next in pairs if one.source != next.source]


def seconds(duration_s: float, *, breaks: bool = False) -> TrueTrack:
    return TrueTrack(round(duration_s * SAMPLE_RATE_HZ), breaks)

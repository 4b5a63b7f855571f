"""A player with hand-turned time and simulated decoders that take their time: for hours of silence in a second."""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from tests.support.hand_time import HandTime
from tests.support.player_bench import HandOpener, HandPool, HandSession, PlayerBench, opened_source
from tests.support.simulated_decoder import Content, SimulatedDecoder
from tests.support.simulated_decoder import Track as TrueTrack
from tests.support.sinks import MemoryListener
from tests.support.tracks import FILE_MISSING, make_track
from tonearm.core.failure import PlayError
from tonearm.core.frame import SAMPLE_RATE_HZ, ms_of_samples
from tonearm.core.opened_source import OpenedSource, ReportWait
from tonearm.core.source_uri import SourceUri, parse_source_uri
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import (
    Burst,
    DropSource,
    Flush,
    FromDecoder,
    FromNode,
    Grant,
    Opened,
    OpenSession,
    OpenSource,
    Plan,
    SeekSource,
)

STEP_S = 0.02
OPENING_S = 0.03
AHEAD_SAMPLES = 2 * SAMPLE_RATE_HZ


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
    def said(self) -> list[Any]:
        return self.events.events

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

    async def close(self) -> None:
        await self.player.delete()


def seconds(duration_s: float, *, breaks: bool = False) -> TrueTrack:
    return TrueTrack(round(duration_s * SAMPLE_RATE_HZ), breaks)

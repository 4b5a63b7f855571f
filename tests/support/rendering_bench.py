"""A player whose decoder is a real render session in the same thread. Sources are in memory, time is turned by hand."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.player_bench import HandSession, PlayerBench
from tests.support.session_bench import StoredSource, render_all
from tonearm.core.frame import ms_of_samples
from tonearm.core.track import Track
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import (
    FIRST_OVERLAY_SOURCE,
    Burst,
    Decoded,
    DropSource,
    Encoded,
    FirstAudio,
    Flush,
    FromNode,
    Grant,
    Opened,
    OpenSession,
    OpenSource,
    Plan,
    SeekSource,
)
from tonearm.worker.packets.mp3 import Mp3Thread
from tonearm.worker.rendering.render_session import RenderSession


class HeldSource(StoredSource):
    """A source of which the test decides how much is decoded."""

    def __init__(self, pcm: bytes, start_sample: int) -> None:
        super().__init__(start=start_sample, is_finished=False)
        self.pcm = pcm

    def decode(self, samples: int) -> bool:
        """Appends up to so many samples. True when that was the end."""
        if self.store.is_finished:
            return False
        end = self.store.end
        part = self.pcm[4 * end : 4 * (end + samples)]
        if part:
            self.store.append(part)
        if 4 * self.store.end < len(self.pcm):
            return False
        self.store.finish(is_interrupted=False)
        return True


@dataclass(slots=True)
class _Running:
    session: RenderSession
    sources: dict[int, HeldSource] = field(default_factory=dict)
    done: int = 0  # of the node's orders


class RenderingBench(PlayerBench):
    """`pcm_of` gives the sound of a source by its number. Overlays are decoded at once, tracks by `decode`."""

    def __init__(self, first: str | Track, *names: str, pcm_of: Callable[[int], bytes]) -> None:
        self._pcm_of = pcm_of
        self._running: dict[int, _Running] = {}
        self.holds_encoded = False  # the thread that encodes MP3 gets no time
        self._encoded: deque[tuple[HandSession, Encoded]] = deque()
        self._mp3 = Mp3Thread(lambda _: None, lambda *_: None, lambda run: run)  # without its thread
        super().__init__(first, *names)

    async def pump(self) -> None:
        """Lets the decoder do what the node has told it, and the node take in what comes of it."""
        for _ in range(4):
            goes_on = await self.settle()
            for session in tuple(self.pool.sessions):
                if session.id in self.pool.owners and self._serve(session):
                    goes_on = True
            if not goes_on:
                return

    async def ticks(self, frames: int) -> None:
        """So many ticks, with a decoder that is quick."""
        for _ in range(frames):
            self.tick()
            await self.pump()

    def decode(self, samples: int) -> None:
        """So much more is decoded of every track."""
        for session in tuple(self.pool.sessions):
            running = self._running.get(session.id)
            if running is not None and session.id in self.pool.owners:
                for number, source in tuple(running.sources.items()):
                    if source.decode(samples):
                        session.say(Decoded(session.id, number))
                self._render(session, running)

    def _serve(self, session: HandSession) -> bool:
        """True when there was something to do."""
        running = self._running.get(session.id)
        start = 0 if running is None else running.done
        for order in session.orders[start:]:
            running = self._take(session, running, order)
            running.done += 1
        return running is not None and (self._render(session, running) or running.done > start)

    def _take(self, session: HandSession, running: _Running | None, order: FromNode) -> _Running:
        if isinstance(order, OpenSession):
            sources: dict[int, HeldSource] = {}
            self._running[session.id] = _Running(RenderSession(order, sources), sources)
            return self._running[session.id]
        assert running is not None
        match order:
            case OpenSource():
                self._open(session, running, order.source, order.start_sample)
            case SeekSource():
                self._open(session, running, order.new_source, order.start_sample)
            case Plan():
                running.session.plan(order)
            case Grant():
                running.session.grant(order)
            case Flush():
                running.session.flush()
            case Burst():
                running.session.burst(order)
            case DropSource():
                pass
        for job in running.session.take_mp3_jobs():
            self._encoded.append((session, job.done(self._mp3._encoded(job))))
        self._tell_encoded()
        return running

    def _tell_encoded(self) -> None:
        while self._encoded and not self.holds_encoded:
            session, encoded = self._encoded.popleft()
            session.say(encoded)

    def _open(self, session: HandSession, running: _Running, number: int, start_sample: int) -> None:
        pcm = self._pcm_of(number)
        source = running.sources[number] = HeldSource(pcm, start_sample)
        facts = SourceFacts(length_ms=ms_of_samples(len(pcm) // 4), is_seekable=True)
        session.say(Opened(session.id, number, facts))
        if number >= FIRST_OVERLAY_SOURCE:
            source.decode(len(pcm))
            session.say(FirstAudio(session.id, number))
            session.say(Decoded(session.id, number))

    def _render(self, session: HandSession, running: _Running) -> bool:
        """True when there was something to render."""
        audios = render_all(running.session)
        for audio in audios:
            session.say(audio)
        return bool(audios)

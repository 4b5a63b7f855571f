"""A player whose decoder is a real render session in the same thread. Sources are in memory, time is turned by hand."""

from collections import deque
from collections.abc import Callable

from tests.support.player_bench import HandPool, HandSession, PlayerBench
from tests.support.session_bench import StoredSource, render_all
from tonearm.core.frame import ms_of_samples
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.messages import (
    FIRST_OVERLAY_SOURCE,
    Burst,
    Decoded,
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


class RenderingSession(HandSession):
    def __init__(self, session_id: int, pool: "RenderingPool") -> None:
        super().__init__(session_id, pool)
        self._node = pool
        self._sources: dict[int, StoredSource] = {}
        self._pcm: dict[int, bytes] = {}
        self._rendering: RenderSession

    def take(self, order: FromNode) -> None:
        match order:
            case OpenSession():
                self._rendering = RenderSession(order, self._sources)
            case OpenSource():
                self._open(order.source, order.start_sample)
            case SeekSource():
                self._open(order.new_source, order.start_sample)
            case Plan():
                self._rendering.plan(order)
            case Grant():
                self._rendering.grant(order)
            case Flush():
                self._rendering.flush()
            case Burst():
                self._rendering.burst(order)
        for job in self._rendering.take_mp3_jobs():
            self._node.encoded.append((self, job.done(self._node.mp3._encoded(job))))
        self._node.tell_encoded()

    def render(self) -> bool:
        audios = render_all(self._rendering)
        for audio in audios:
            self.say(audio)
        return bool(audios)

    def decode(self, samples: int) -> None:
        """So much more is decoded of every source."""
        for number in tuple(self._sources):
            self._decode(number, samples)
        if self._sources:
            self.render()

    def _decode(self, number: int, samples: int) -> None:
        store, pcm = self._sources[number].store, self._pcm[number]
        if store.is_finished:
            return
        if part := pcm[4 * store.end : 4 * (store.end + samples)]:
            store.append(part)
        if 4 * store.end >= len(pcm):
            store.finish(is_interrupted=False)
            self.say(Decoded(self.id, number))

    def _open(self, number: int, start_sample: int) -> None:
        pcm = self._pcm[number] = self._node.pcm_of(number)
        self._sources[number] = StoredSource(start=start_sample, is_finished=False)
        self.say(Opened(self.id, number, SourceFacts(length_ms=ms_of_samples(len(pcm) // 4), is_seekable=True)))
        if number >= FIRST_OVERLAY_SOURCE:
            self.say(FirstAudio(self.id, number))
            self._decode(number, len(pcm))


class RenderingPool(HandPool):
    """`pcm_of` gives the sound of a source by its number. While it `holds_encoded`, the thread that encodes MP3 gets no
    time."""

    def __init__(self, pcm_of: Callable[[int], bytes]) -> None:
        super().__init__()
        self.pcm_of = pcm_of
        self.holds_encoded = False
        self.encoded: deque[tuple[HandSession, Encoded]] = deque()
        self.mp3 = Mp3Thread(lambda _: None, lambda *_: None, lambda run: run)  # without its thread

    def new_session(self, session_id: int) -> HandSession:
        return RenderingSession(session_id, self)

    def tell_encoded(self) -> None:
        while self.encoded and not self.holds_encoded:
            session, encoded = self.encoded.popleft()
            session.say(encoded)


class RenderingBench(PlayerBench):
    """Overlays are decoded at once, tracks by `decode`."""

    pool: RenderingPool

    def __init__(self, *names: str, pcm_of: Callable[[int], bytes]) -> None:
        super().__init__(*names, pool=RenderingPool(pcm_of))

    def decode(self, samples: int) -> None:
        for session in self.pool.working:
            assert isinstance(session, RenderingSession)
            session.decode(samples)

"""A decoder process that was taken over says what it likes: whatever breaks a rule ends it, and costs nobody else."""

import mmap
import os
import signal
import socket
import struct
import threading
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import pytest

from tests.decoder.test_messages import with_field
from tests.support.eventually import eventually
from tonearm.core.admission import Claim, Urgency
from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, PCM, Output, mp3_output
from tonearm.core.track_info import MAX_LENGTH_MS, SourceFacts
from tonearm.decoder.message_coding import BrokenMessage, pack
from tonearm.decoder.messages import (
    FIRST_OVERLAY_SOURCE,
    SHORT_GRANT_FRAMES,
    SUSPECT_BYTES,
    SUSPECT_NOTE,
    Audio,
    Data,
    Decoded,
    Encoded,
    Failed,
    FirstAudio,
    FoundPicture,
    FromDecoder,
    Grant,
    Mark,
    MarkKind,
    Measured,
    Opened,
    OpenSession,
    OpenSource,
    OverlayOrder,
    OverlayPosition,
    Plan,
    Pong,
    ReadRequest,
    Ready,
    SeekRefused,
    SeekSource,
    SessionFailed,
    Titled,
    Want,
)
from tonearm.decoder.pool.pool import SESSIONS_BEFORE_NEXT, DecoderPool, PoolSession
from tonearm.decoder.pool.process import Timeouts
from tonearm.decoder.pool.session_rules import SessionRules
from tonearm.sandbox.report import SandboxReport


class LyingDecoder:
    """A child process for a pool. It is in this process, and has the decoder's end of the socket."""

    pid: Final = 0

    def __init__(self, connection: int, suspects: int) -> None:
        self._socket = socket.socket(fileno=os.dup(connection))
        self._suspects = mmap.mmap(suspects, SUSPECT_BYTES)
        self._ended = threading.Event()
        self.was_killed = False
        self.say(Ready(SandboxReport(seccomp=True)))

    def say(self, *messages: FromDecoder | bytes) -> None:
        self._socket.sendall(b"".join(said if isinstance(said, bytes) else pack(said) for said in messages))

    def work_on(self, session: int, source: int) -> None:
        """Notes this as what it works on."""
        SUSPECT_NOTE.pack_into(self._suspects, 0, session << 32 | source, 0)

    def wait(self) -> int:
        self._ended.wait()
        return -signal.SIGKILL

    def kill(self) -> None:
        if not self.was_killed:
            self.was_killed = True
            self._socket.close()
            self._suspects.close()
            self._ended.set()


class LyingStarter:
    """Starts such processes, which are in `processes`."""

    is_cheap: Final = True

    def __init__(self) -> None:
        self.processes: list[LyingDecoder] = []

    async def start(self, connection: int, suspects: int) -> LyingDecoder:
        self.processes.append(LyingDecoder(connection, suspects))
        return self.processes[-1]


OPUS, MP3 = Output("opus"), mp3_output(128_000)
GRANTED: Final = 30
FIRST: Final = 100  # frame of the session
SOURCE, NEXT, SOUGHT, COVER = 3, 4, 5, 6
OVERLAY: Final = FIRST_OVERLAY_SOURCE
FAILURE = PlayFailure(FailureCode.CORRUPT, Stage.DECODE, "It is damaged.", "Fetch it again.")

Said: TypeAlias = FromDecoder | bytes


class Owner:
    """A session with a current source, a next one, an overlay and one that was opened for its picture."""

    frames_ahead = 10
    claim = Claim(Urgency.PLAYS, 1)
    is_silent = False

    def __init__(self, pool: DecoderPool) -> None:
        self._pool = pool
        self.received: list[FromDecoder] = []
        self.losses: list[tuple[int, ...]] = []
        self.session: PoolSession
        self.waits = False  # as a suspect, until there is a spare again
        self._open()

    @property
    def id(self) -> int:
        return self.session.id

    def _open(self) -> None:
        session = self._pool.open(self)
        self.waits = session is None
        if session is None:
            return
        self.session = session
        session.send(OpenSession(session.id, 1, FIRST, Filters()))
        for source in (SOURCE, COVER, OVERLAY):
            want = Want.PICTURE if source == COVER else Want.SOUND
            order = OpenSource(session.id, source, "a", None, False, False, None, 0, False, want)
            session.send(order)
        session.send(SeekSource(session.id, SOURCE, SOUGHT, 0))
        overlays = (OverlayOrder(OVERLAY, 1.0, 0.0, 0),)
        session.send(Plan(session.id, 2, 1, FIRST, SOURCE, SOURCE, NEXT, Filters(), overlays=overlays))
        session.send(Grant(session.id, 1, FIRST, FIRST + GRANTED, frozenset({PCM, OPUS, MP3})))

    def receive(self, message: FromDecoder) -> None:
        self.received.append(message)

    def process_lost(self, suspect_sources: tuple[int, ...]) -> None:
        if not self.waits:
            self.losses.append(suspect_sources)
        self._open()


@asynccontextmanager
async def lying_pool(limit: int = 1) -> AsyncIterator[tuple[DecoderPool, LyingStarter]]:
    starter = LyingStarter()
    pool = DecoderPool(limit, 100, Timeouts(spare_delay_s=0.0, kill_after_s=0.001), starter=starter)
    await pool.start()
    try:
        await eventually(lambda: pool.has_spare, "a spare is ready")
        yield pool, starter
    finally:
        await pool.stop()
        for process in starter.processes:
            process.kill()


def audio(
    session: int,
    first: int = FIRST,
    frames: int = 2,
    epoch: int = 2,
    source: int = SOURCE,
    marks: tuple[Mark, ...] = (),
    overlays: tuple[OverlayPosition, ...] = (),
) -> Audio:
    return Audio(session, epoch, first, frames, source, 0, marks, bytes(frames * FRAME_BYTES), overlays=overlays)


# What a decoder says that keeps to its orders.
TRUTHS: Final[tuple[Callable[[int], FromDecoder], ...]] = (
    lambda session: ReadRequest(session, SOURCE, 0, 65_536),
    lambda session: Opened(session, SOURCE, SourceFacts()),
    lambda session: FirstAudio(session, OVERLAY),
    lambda session: FoundPicture(session, COVER, b"picture"),
    lambda session: audio(session, FIRST, 3, epoch=1, source=0),  # of the plan before, when the new one crossed it
    lambda session: audio(session, FIRST, 0, marks=(Mark(MarkKind.BEGIN, FIRST, SOURCE),)),
    lambda session: audio(session, FIRST, 20, overlays=(OverlayPosition(OVERLAY, 0),)),
    lambda session: audio(session, FIRST + 20, GRANTED - 20, marks=(Mark(MarkKind.END, FIRST + GRANTED, SOURCE),)),
    lambda session: audio(session, FIRST + GRANTED, 0, marks=(Mark(MarkKind.BEGIN, FIRST + GRANTED, NEXT),)),
    lambda session: Encoded(session, FIRST, FIRST + 10, MP3, (b"mp3",) * 9),
    lambda session: Opened(session, SOUGHT, SourceFacts()),
    lambda session: Titled(session, SOURCE, 0, "title"),
    lambda session: Measured(session, SOURCE, -9.0, 1000),
    lambda session: SeekRefused(session, SOUGHT, FAILURE),
    lambda session: Failed(session, SOURCE, FAILURE, gave_audio=True),
    lambda session: Decoded(session, SOURCE),
    lambda session: SessionFailed(session, 0, FAILURE),
)

UNKNOWN: Final = 7  # a source that was never opened
END: Final = FIRST + GRANTED

LIES: Final[dict[str, Callable[[int], Said | tuple[Said, ...]]]] = {
    # What is no message at all, of which `test_messages` has the table
    "unknown kind": lambda _: struct.pack("<BII", 255, 0, 0),
    "what only the node says": lambda session: pack(Data(session, SOURCE, 0, b"")),
    "a length that no clock has": lambda session: pack(Opened(session, SOURCE, SourceFacts(MAX_LENGTH_MS + 1))),
    "a negative number": lambda session: with_field(ReadRequest(session, SOURCE, 0, 1), 2, -1),
    # Sessions and sources
    "frames for a session that never was": lambda _: audio(999),
    "frames for session 0": lambda _: audio(0),
    "a report about a source never opened": lambda session: Opened(session, UNKNOWN, SourceFacts()),
    "a read of a source never opened": lambda session: ReadRequest(session, UNKNOWN, 0, 1),
    "a failure of a source that is only planned": lambda session: Failed(session, NEXT, FAILURE, False),
    "a picture that nobody asked for": lambda session: FoundPicture(session, SOURCE, b"picture"),
    "the sound of a source never named": lambda session: audio(session, source=UNKNOWN),
    "a mark of a source never named": lambda session: audio(session, marks=(Mark(MarkKind.END, FIRST, UNKNOWN),)),
    "an overlay never named": lambda session: audio(session, overlays=(OverlayPosition(OVERLAY + 1, 0),)),
    # Frames
    "more frames than are granted": lambda session: audio(session, FIRST, GRANTED + 1),
    "more than are granted, one after the other": lambda session: (
        *(audio(session, frame, 10) for frame in range(FIRST, END, 10)),
        audio(session, END, 1),
    ),
    "frames twice": lambda session: (audio(session, FIRST, 10), audio(session, FIRST, 10)),
    "frames behind a gap": lambda session: audio(session, FIRST + 1),
    "frames of a plan that was not made": lambda session: audio(session, epoch=3),
    "frames of a plan that is over": lambda session: (audio(session), audio(session, epoch=1)),
    "a mark far ahead": lambda session: audio(session, marks=(Mark(MarkKind.END, END + 1, SOURCE),)),
    "marks without end": lambda session: (
        (audio(session, frames=0, marks=(Mark(MarkKind.END, FIRST, SOURCE),) * 200),) * 6
    ),
    "a form that nobody wants": lambda session: Audio(
        session, 2, FIRST, 1, SOURCE, 0, (), b"", packets=((Output("opus", 64_000), (b"packet",)),)
    ),
    "MP3 of frames that were not granted": lambda session: Encoded(session, FIRST, END + 1, MP3, ()),
    "MP3 backwards": lambda session: Encoded(session, FIRST + 1, FIRST, MP3, ()),
    "more MP3 than frames": lambda session: Encoded(session, FIRST, FIRST + 1, MP3, (b"mp3",) * 6),
    "MP3 that nobody wants": lambda session: Encoded(session, FIRST, FIRST + 1, mp3_output(320_000), ()),
    # Of the process
    "an answer that was not asked for": lambda _: Pong(1_000, 0.0),
    "an answer twice": lambda _: (Pong(1, 0.0), Pong(1, 0.0)),
    "ready twice": lambda _: Ready(SandboxReport(seccomp=True)),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
async def test_a_lie_ends_the_process_alone(
    lie: Callable[[int], Said | tuple[Said, ...]], caplog: pytest.LogCaptureFixture
) -> None:
    async with lying_pool() as (pool, starter):
        liar, other = Owner(pool), Owner(pool)
        process = starter.processes[0]
        said = lie(liar.id)
        process.say(*said if isinstance(said, tuple) else (said,))
        await eventually(lambda: process.was_killed and len(liar.losses) == len(other.losses) == 1, "the sessions move")
        assert "said what it may not say" in caplog.text
        true = sum(isinstance(part, Audio) for part in said[:-1]) if isinstance(said, tuple) else 0
        assert len(liar.received) == true  # the lie itself is not passed on
        assert other.received == []
        await eventually(lambda: not liar.waits, "there is a spare, which a suspect waits for")
        # What comes next is honest, and taken.
        starter.processes[1].say(ReadRequest(liar.id, SOURCE, 0, 1), ReadRequest(other.id, SOURCE, 0, 1))
        await eventually(lambda: len(other.received) == 1, "the other process is heard")
        assert len(liar.received) == true + 1


async def test_a_decoder_that_keeps_to_its_orders_is_believed() -> None:
    async with lying_pool() as (pool, starter):
        owner = Owner(pool)
        truths = [truth(owner.id) for truth in TRUTHS]
        starter.processes[0].say(*truths)
        await eventually(lambda: len(owner.received) == len(truths), "all is taken")
        assert not starter.processes[0].was_killed


async def test_grants_add_up_across_plans_and_shorter_grants() -> None:
    """A grant may reach less far than the one before, whose frames are under way."""
    async with lying_pool() as (pool, starter):
        owner = Owner(pool)
        process = starter.processes[0]
        owner.session.send(Grant(owner.id, 2, FIRST, FIRST + 120))
        owner.session.send(Grant(owner.id, 2, FIRST, FIRST + 40))
        owner.session.send(Plan(owner.id, 3, 2, FIRST + 50, None, SOURCE, NEXT, Filters()))
        process.say(audio(owner.id, FIRST, 80), audio(owner.id, FIRST + 80, 40))
        process.say(audio(owner.id, FIRST + 50, 20, epoch=3), audio(owner.id, FIRST + 70, 50, epoch=3))
        await eventually(lambda: len(owner.received) == 4, "all is taken")
        owner.session.send(Plan(owner.id, 4, 3, FIRST + 200, SOURCE, SOURCE, NEXT, Filters()))
        owner.session.send(Grant(owner.id, 3, FIRST + 200, FIRST + 240))
        process.say(audio(owner.id, FIRST + 200, 40, epoch=4))
        await eventually(lambda: len(owner.received) == 5, "a cut begins where it should")


async def test_a_session_has_some_frames_granted_with_its_opening() -> None:
    async with lying_pool() as (pool, starter):
        owner = Owner(pool)
        owner.session.close()
        session = pool.open(owner)
        assert session is not None
        session.send(OpenSession(session.id, 9, FIRST, Filters()))
        starter.processes[0].say(audio(session.id, FIRST, SHORT_GRANT_FRAMES, epoch=9, source=0))
        await eventually(lambda: len(owner.received) == 1, "they are taken")
        starter.processes[0].say(audio(session.id, FIRST + SHORT_GRANT_FRAMES, 1, epoch=9, source=0))
        await eventually(lambda: starter.processes[0].was_killed, "and no more")


def test_a_session_that_goes_on_for_weeks_knows_each_of_its_sources_and_takes_little_memory() -> None:
    rules = SessionRules()
    rules.ordered(OpenSession(1, 1, FIRST, Filters()))
    tracemalloc.start()
    try:
        for number in range(10_000):
            for source in (1 + number, OVERLAY + number):
                rules.ordered(OpenSource(1, source, "a", None, False, False, None, 0, False))
        taken_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    for known in (1, 1023, 1024, 1025, 10_000, OVERLAY, OVERLAY + 9_999):
        rules.check(Decoded(1, known))
        rules.check(SessionFailed(1, known, FAILURE))
    for unknown in (10_001, OVERLAY - 1, OVERLAY + 10_000):
        with pytest.raises(BrokenMessage):
            rules.check(Decoded(1, unknown))
        with pytest.raises(BrokenMessage):
            rules.check(SessionFailed(1, unknown, FAILURE))
    assert taken_bytes < 100_000


async def test_nobody_speaks_for_a_session_in_another_process() -> None:
    async with lying_pool(limit=2) as (pool, starter):
        owners = [Owner(pool) for _ in range(SESSIONS_BEFORE_NEXT + 1)]
        starter.processes[0].say(audio(owners[-1].id))
        await eventually(lambda: all(len(owner.losses) == 1 for owner in owners[:-1]), "the sessions of the liar move")
        assert (owners[-1].received, owners[-1].losses) == ([], [])


async def test_what_is_said_about_a_closed_session_is_left_out() -> None:
    async with lying_pool() as (pool, starter):
        owner, other = Owner(pool), Owner(pool)
        process, closed = starter.processes[0], owner.id
        owner.session.close()
        process.say(audio(closed), Pong(1, 0.0), Pong(2, 0.0), audio(closed))
        process.say(ReadRequest(other.id, SOURCE, 0, 1))
        await eventually(lambda: len(other.received) == 1, "the process is heard")
        assert owner.received == []
        assert not process.was_killed


async def test_what_the_liar_works_on_is_a_suspect() -> None:
    async with lying_pool() as (pool, starter):
        liar, other = Owner(pool), Owner(pool)
        process = starter.processes[0]
        process.work_on(liar.id, SOURCE)
        process.say(audio(liar.id, END))
        await eventually(lambda: len(liar.losses) == len(other.losses) == 1, "the sessions move")
        assert (liar.losses, other.losses) == ([(SOURCE,)], [()])


@pytest.mark.parametrize("lie", ["against its orders", "that cannot be read"])
async def test_a_liar_who_notes_nothing_is_known_by_what_it_lied_about(lie: str) -> None:
    async with lying_pool() as (pool, starter):
        liar, other = Owner(pool), Owner(pool)
        said = audio(liar.id, END) if lie == "against its orders" else with_field(audio(liar.id), 2, -1)
        starter.processes[0].say(said)
        await eventually(lambda: len(liar.losses) == len(other.losses) == 1, "the sessions move")
        assert (liar.losses, other.losses) == ([(0,)], [()])  # what sounds in it

"""A decoder process that was taken over says what it likes: whatever breaks a rule ends it, and costs nobody else."""

import mmap
import os
import signal
import socket
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any, Final

import pytest
from msgspec import structs

from tests.decoder.pool.test_pool import Owner as PoolOwner
from tests.decoder.test_messages import with_field
from tests.support.eventually import eventually
from tonearm.core.failure import FailureCode, PlayFailure, Stage
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, PCM, Output, mp3_output
from tonearm.core.track_info import SourceFacts
from tonearm.decoder.message_coding import BrokenMessage, pack
from tonearm.decoder.messages import (
    EXIT_MEMORY_LIMIT,
    EXIT_NO_SANDBOX,
    FIRST_OVERLAY_SOURCE,
    SESSION_SLOT,
    SHORT_GRANT_FRAMES,
    SUSPECT_BYTES,
    SUSPECT_NOTE,
    Audio,
    Decoded,
    Encoded,
    Failed,
    FirstAudio,
    FoundPicture,
    FromDecoder,
    Grant,
    Mark,
    MarkKind,
    Opened,
    OpenSession,
    OpenSource,
    OverlayOrder,
    OverlayPosition,
    Plan,
    Pong,
    ReadRequest,
    Ready,
    SeekSource,
    SessionFailed,
    Want,
)
from tonearm.decoder.pool.pool import SESSIONS_BEFORE_NEXT, DecoderPool
from tonearm.decoder.pool.process import Timeouts
from tonearm.decoder.pool.session_rules import SessionRules
from tonearm.sandbox.report import SandboxMode, SandboxReport, SandboxSupervision


class LyingDecoder:
    """A child process for a pool. It is in this process, and has the decoder's end of the socket."""

    pid: Final = 0

    def __init__(self, connection: int, suspects: int, report: SandboxReport) -> None:
        self._socket = socket.socket(fileno=os.dup(connection))
        self._suspects = mmap.mmap(suspects, SUSPECT_BYTES)
        self._ended = threading.Event()
        self._code: int = -signal.SIGKILL
        self.was_killed = False
        self.say(Ready(report))

    def say(self, *messages: FromDecoder | bytes) -> None:
        self._socket.sendall(b"".join(said if isinstance(said, bytes) else pack(said) for said in messages))

    def work_on(self, session: int, source: int, slot: int = 0) -> None:
        """Notes this as what it works on."""
        SUSPECT_NOTE.pack_into(self._suspects, slot * SUSPECT_NOTE.size, session << 32 | source, 0)

    def exit(self, code: int) -> None:
        self._code = code
        self._ended.set()

    def wait(self) -> int:
        self._ended.wait()
        return self._code

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
        self.report = SandboxReport(seccomp=True)

    async def start(self, connection: int, suspects: int) -> LyingDecoder:
        self.processes.append(LyingDecoder(connection, suspects, self.report))
        return self.processes[-1]


OPUS, MP3 = Output("opus"), mp3_output(128_000)
GRANTED: Final = 30
FIRST: Final = 100  # frame of the session
SOURCE, NEXT, SOUGHT, COVER = 3, 4, 5, 6
OVERLAY: Final = FIRST_OVERLAY_SOURCE
FAILURE = PlayFailure(FailureCode.CORRUPT, Stage.DECODE, "It is damaged.", "Fetch it again.")


class Owner(PoolOwner):
    """A session with a current source, a next one, an overlay and one that was opened for its picture."""

    def open(self) -> None:
        super().open()
        if self.session is None:  # it waits as a suspect, until there is a spare again
            return
        self.send(OpenSession(self.id, 1, FIRST, Filters()))
        for source in (SOURCE, COVER, OVERLAY):
            want = Want.PICTURE if source == COVER else Want.SOUND
            self.send(OpenSource(self.id, source, "a", None, False, False, None, 0, False, want))
        self.send(SeekSource(self.id, SOURCE, SOUGHT, 0))
        overlays = (OverlayOrder(OVERLAY, 1.0, 0.0, 0),)
        self.send(Plan(self.id, 2, 1, FIRST, SOURCE, SOURCE, NEXT, Filters(), overlays=overlays))
        self.send(Grant(self.id, 1, FIRST, FIRST + GRANTED, frozenset({PCM, OPUS, MP3})))


@asynccontextmanager
async def lying_pool(
    limit: int = 1, sandbox: SandboxSupervision | None = None
) -> AsyncIterator[tuple[DecoderPool, LyingStarter]]:
    starter = LyingStarter()
    timeouts = Timeouts(spare_delay_s=0.0, kill_after_s=0.001)
    pool = DecoderPool(limit, 100, timeouts, sandbox=sandbox, starter=starter)
    await pool.start()
    try:
        await eventually(lambda: pool.has_spare, "a spare is ready")
        yield pool, starter
    finally:
        await pool.stop()
        for process in starter.processes:
            process.kill()


def audio(first: int = FIRST, frames: int = 2, **others: Any) -> Audio:
    """Of the first session of a pool, unless another one is named."""
    return structs.replace(Audio(1, 2, first, frames, SOURCE, 0, (), bytes(frames * FRAME_BYTES)), **others)


UNKNOWN: Final = 7  # a source that was never opened
END: Final = FIRST + GRANTED
MARK = Mark(MarkKind.END, FIRST, SOURCE)

# What a decoder says that keeps to its orders.
TRUTHS: Final[tuple[FromDecoder, ...]] = (
    ReadRequest(1, SOURCE, 0, 65_536),
    Opened(1, SOURCE, SourceFacts()),
    FirstAudio(1, OVERLAY),
    FoundPicture(1, COVER, b"picture"),
    audio(FIRST, 3, epoch=1, source=0),  # of the plan before, when the new one crossed it
    audio(FIRST, 0, marks=(Mark(MarkKind.BEGIN, FIRST, SOURCE),)),
    audio(FIRST, 20, overlays=(OverlayPosition(OVERLAY, 0),)),
    audio(FIRST + 20, GRANTED - 20, marks=(Mark(MarkKind.END, END, SOURCE),)),
    audio(END, 0, marks=(Mark(MarkKind.BEGIN, END, NEXT),)),
    Encoded(1, FIRST, FIRST + 10, MP3, (b"mp3",) * 9),
    Opened(1, SOUGHT, SourceFacts()),
    SessionFailed(1, 0, FAILURE),
)

LIES: Final[dict[str, tuple[FromDecoder | bytes, ...]]] = {
    "no message at all, as in the table of test_messages": (struct.pack("<BII", 255, 0, 0),),
    # Sessions and sources
    "frames for a session that never was": (audio(session=999),),
    "frames for session 0": (audio(session=0),),
    "a report about a source never opened": (Opened(1, UNKNOWN, SourceFacts()),),
    "a failure of a source that is only planned": (Failed(1, NEXT, FAILURE, False),),
    "a picture that nobody asked for": (FoundPicture(1, SOURCE, b"picture"),),
    "the sound of a source never named": (audio(source=UNKNOWN),),
    "a mark of a source never named": (audio(marks=(Mark(MarkKind.END, FIRST, UNKNOWN),)),),
    "an overlay never named": (audio(overlays=(OverlayPosition(OVERLAY + 1, 0),)),),
    # Frames
    "more frames than are granted": (audio(FIRST, GRANTED + 1),),
    "more than are granted, one after the other": (audio(FIRST, GRANTED), audio(END, 1)),
    "frames twice": (audio(FIRST, 10), audio(FIRST, 10)),
    "frames behind a gap": (audio(FIRST + 1),),
    "frames of a plan that was not made": (audio(epoch=3),),
    "frames of a plan that is over": (audio(), audio(epoch=1)),
    "a mark far ahead": (audio(marks=(Mark(MarkKind.END, END + 1, SOURCE),)),),
    "marks without end": (audio(frames=0, marks=(MARK,) * 200),) * 6,
    "a form that nobody wants": (
        Audio(1, 2, FIRST, 1, SOURCE, 0, (), b"", packets=((Output("opus", 64_000), (b"packet",)),)),
    ),
    "MP3 of frames that were not granted": (Encoded(1, FIRST, END + 1, MP3, ()),),
    "MP3 backwards": (Encoded(1, FIRST + 1, FIRST, MP3, ()),),
    "more MP3 than frames": (Encoded(1, FIRST, FIRST + 1, MP3, (b"mp3",) * 6),),
    "MP3 that nobody wants": (Encoded(1, FIRST, FIRST + 1, mp3_output(320_000), ()),),
    # Of the process
    "an answer that was not asked for": (Pong(1_000, 0.0),),
    "an answer twice": (Pong(1, 0.0), Pong(1, 0.0)),
    "ready twice": (Ready(SandboxReport(seccomp=True)),),
}


@pytest.mark.parametrize("said", LIES.values(), ids=LIES.keys())
async def test_a_lie_ends_its_process(said: tuple[FromDecoder | bytes, ...], caplog: pytest.LogCaptureFixture) -> None:
    async with lying_pool() as (pool, starter):
        liar, other = Owner(pool), Owner(pool)
        process = starter.processes[0]
        process.say(*said)
        await eventually(lambda: process.was_killed and liar.losses and len(other.losses) == 1, "the sessions move")
        assert "said what it may not say" in caplog.text
        true = sum(isinstance(part, Audio) for part in said[:-1])
        assert len(liar.received) == true  # the lie itself is not passed on
        assert other.received == []
        await eventually(lambda: liar.session is not None, "there is a spare, which a suspect waits for")
        # What comes next is honest, and taken.
        starter.processes[1].say(ReadRequest(liar.id, SOURCE, 0, 1), ReadRequest(other.id, SOURCE, 0, 1))
        await eventually(lambda: len(other.received) == 1, "the other process is heard")
        assert len(liar.received) == true + 1


async def test_a_decoder_that_keeps_to_its_orders_is_believed() -> None:
    async with lying_pool() as (pool, starter):
        owner, process = Owner(pool), starter.processes[0]
        process.say(*TRUTHS)
        await eventually(lambda: len(owner.received) == len(TRUTHS), "all is taken")
        owner.received.clear()
        # Grants add up across plans; one may reach less far than the one before, whose frames are under way.
        owner.send(Grant(owner.id, 2, END, END + 120))
        owner.send(Grant(owner.id, 2, END, END + 40))
        owner.send(Plan(owner.id, 3, 2, END + 50, None, SOURCE, NEXT, Filters()))
        process.say(audio(END, 80), audio(END + 80, 40))
        process.say(audio(END + 50, 20, epoch=3), audio(END + 70, 50, epoch=3))
        await eventually(lambda: len(owner.received) == 4, "all is taken")
        owner.send(Plan(owner.id, 4, 3, END + 200, SOURCE, SOURCE, NEXT, Filters()))
        owner.send(Grant(owner.id, 3, END + 200, END + 240))
        process.say(audio(END + 200, 40, epoch=4))
        await eventually(lambda: len(owner.received) == 5, "a cut begins where it should")
        assert not process.was_killed


def test_a_session_has_some_frames_granted_with_its_opening_and_knows_its_sources_for_weeks() -> None:
    rules = SessionRules()
    rules.ordered(OpenSession(1, 1, FIRST, Filters()))
    rules.check(audio(FIRST, SHORT_GRANT_FRAMES, epoch=1, source=0))
    with pytest.raises(BrokenMessage):
        rules.check(audio(FIRST + SHORT_GRANT_FRAMES, 1, epoch=1, source=0))
    for number in range(10_000):
        for source in (1 + number, OVERLAY + number):
            rules.ordered(OpenSource(1, source, "a", None, False, False, None, 0, False))
    for source in (1, 1023, 1024, 1025, 10_000, OVERLAY, OVERLAY + 9_999, 10_001, OVERLAY - 1, OVERLAY + 10_000):
        is_known = source <= 10_000 or OVERLAY <= source < OVERLAY + 10_000
        for message in (Decoded(1, source), SessionFailed(1, source, FAILURE)):
            with nullcontext() if is_known else pytest.raises(BrokenMessage):
                rules.check(message)


async def test_nobody_speaks_for_a_session_in_another_process() -> None:
    async with lying_pool(limit=2) as (pool, starter):
        owners = [Owner(pool) for _ in range(SESSIONS_BEFORE_NEXT + 1)]
        starter.processes[0].say(audio(session=owners[-1].id))
        await eventually(lambda: all(len(owner.losses) == 1 for owner in owners[:-1]), "the sessions of the liar move")
        assert (owners[-1].received, owners[-1].losses) == ([], [])


async def test_what_is_said_about_a_closed_session_is_left_out() -> None:
    async with lying_pool() as (pool, starter):
        owner, other = Owner(pool), Owner(pool)
        process = starter.processes[0]
        assert owner.session is not None
        owner.session.close()
        process.say(audio(), Pong(1, 0.0), Pong(2, 0.0), audio(), ReadRequest(other.id, SOURCE, 0, 1))
        await eventually(lambda: len(other.received) == 1, "the process is heard")
        assert owner.received == []
        assert not process.was_killed


@pytest.mark.parametrize(
    ("end", "slot", "said", "suspects"),
    [
        (audio(END), 0, "said what it may not say", (SOURCE,)),
        # One who notes nothing is known by what it lied about: what sounds in it.
        (audio(END), None, "said what it may not say", (0,)),
        (with_field(audio(), 2, -1), None, "said what it may not say", (0,)),
        (EXIT_MEMORY_LIMIT, 0, "reached its memory limit", (SOURCE,)),
        (1, SESSION_SLOT, "exited with 1", (0,)),
        (0, 0, "exited with 0", ()),
        (-signal.SIGTERM, 0, "was ended by SIGTERM", ()),
        (EXIT_NO_SANDBOX, 0, "has no sandbox and must not work without", ()),
    ],
)
async def test_which_ends_count_against_what_was_worked_on(
    end: int | FromDecoder | bytes,
    slot: int | None,
    said: str,
    suspects: tuple[int, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with lying_pool() as (pool, starter):
        busy, other = Owner(pool), Owner(pool)
        process = starter.processes[0]
        if slot is not None:
            process.work_on(busy.id, 0 if slot == SESSION_SLOT else SOURCE, slot)
        if isinstance(end, int):
            process.exit(end)
        else:
            process.say(end)
        await eventually(lambda: busy.losses and other.losses, "the sessions move")
        assert (busy.losses[0], other.losses) == (suspects, [()])
        assert said in caplog.text


async def test_a_process_that_lacks_the_sandbox_it_must_have_gets_no_session() -> None:
    async with lying_pool(sandbox=SandboxSupervision("decoders", "", SandboxMode.REQUIRED)) as (pool, starter):
        owner, open_ones = Owner(pool), starter.processes[:]
        starter.report = SandboxReport(problem="seccomp: EINVAL")
        for process in open_ones:
            process.exit(-signal.SIGKILL)
        await eventually(lambda: len(starter.processes) > 2, "another one")
        await eventually(lambda: pool._processes[-1].sandbox == starter.report, "it says what it has")
        assert owner.session is None
        starter.report = SandboxReport(seccomp=True)
        starter.processes[-1].exit(EXIT_NO_SANDBOX)
        await eventually(lambda: owner.session is not None, "one with a sandbox is there again")

"""What raises in a step of one session ends that session, with a reason, and the process goes on for all others.

The worker runs in a thread of the test, with render sessions that can be made to fail.
"""

import mmap
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.audio_files import music, pcm_of, wav
from tests.support.decoder_driver import SentAudio, open_order
from tests.support.processes import open_descriptors
from tests.support.worker_in_thread import WorkerInThread
from tonearm.core.failure import FailureCode, Stage
from tonearm.core.filters import Filters
from tonearm.core.frame import PCM, PCM_ONLY, Outputs, mp3_output
from tonearm.decoder.messages import (
    EXIT_MEMORY_LIMIT,
    Audio,
    Data,
    Encoded,
    Failed,
    FromDecoder,
    Grant,
    OpenSession,
    ReadRequest,
    Ready,
    SeekSource,
    SessionFailed,
)
from tonearm.worker.memory import address_space_bytes
from tonearm.worker.packets.mp3 import Mp3Encoder
from tonearm.worker.rendering.render_session import RenderSession
from tonearm.worker.sources.cursor import Cursor
from tonearm.worker.sources.source import DecodingSource
from tonearm.worker.suspects import SuspectNotes

SONG = music(2.0)
SONG_PCM = pcm_of(SONG)
BAD, GOOD = 1, 2
MISPLACED = LookupError("samples 5 to 6 of a store of 7 to 8")


class BreakableWorker(WorkerInThread):
    """One whose steps for the bad session can be made to fail. Each session that is played has the song as source 1."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, **given: Any) -> None:
        super().__init__(**given)
        self.song = folder / "song.wav"
        self.song.write_bytes(wav(SONG))
        self.patch = patch
        self.noted: list[tuple[int, int]] = []

    def breaks_in(self, kind: type, name: str, error: Exception) -> None:
        """Has a method raise for the bad session."""
        really = getattr(kind, name)

        def broken(it: object, *arguments: object, **more: object) -> object:
            of = arguments[0] if name == "__init__" else it
            if getattr(of, "session", getattr(of, "_id", 0)) == BAD or getattr(of, "suspect", 0) >> 32 == BAD:
                self.noted = self.suspects()
                raise error
            return really(it, *arguments, **more)

        self.patch.setattr(kind, name, broken)

    def play(self, session: int, song: Path | None = None) -> None:
        self.begin(session)
        self.open_file(song or self.song, session)

    def renders_all(self, session: int = GOOD, outputs: Outputs = PCM_ONLY) -> None:
        """That the session renders the song from its first sample to its last."""
        assert SentAudio(self, session, outputs).play(1000) == SONG_PCM


def frames_in(messages: list[FromDecoder]) -> int:
    return sum(message.frames for message in messages if isinstance(message, Audio))


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BreakableWorker]:
    worker = BreakableWorker(tmp_path, monkeypatch)
    yield worker
    worker.close()


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        *((RenderSession, name, MISPLACED) for name in ("__init__", "plan", "grant", "take_measured", "used_up_to")),
        (RenderSession, "render", MISPLACED),
        (RenderSession, "render", MemoryError("Unable to allocate 3.55 PiB")),  # while the process has enough
        *((DecodingSource, name, MISPLACED) for name in ("start", "used", "fill_up")),
        (Cursor, "finish", MISPLACED),
    ],
)
def test_an_error_ends_its_session_alone(
    worker: BreakableWorker, kind: type, name: str, error: Exception, capfd: pytest.CaptureFixture[str]
) -> None:
    worker.breaks_in(kind, name, error)
    long_song = worker.song.with_name("long.wav")
    long_song.write_bytes(wav(music(4.0)))
    worker.play(BAD, long_song)
    came: list[FromDecoder] = []
    for end_frame in (40, 80, 120, 160):
        worker.send(Grant(BAD, 2, end_frame - 40, end_frame))
        while not any(isinstance(message, SessionFailed) for message in came) and frames_in(came) < end_frame:
            came += worker.step()
        worker.wait_until(lambda: worker.suspects() == [])  # the source waits for room, and goes on with the next grant
    failed = worker.wait_for(SessionFailed, BAD)
    assert (failed.failure.code, failed.failure.stage) == (FailureCode.INTERNAL, Stage.DECODE)
    assert f"{type(error).__name__}: {error}" in failed.failure.message
    assert BAD in {session for session, _ in worker.noted}
    worker.send(Grant(BAD, 2, 10, 50))  # the node does not know it yet
    worker.send(SeekSource(BAD, 1, 3, 0))
    worker.play(GOOD)
    worker.renders_all()
    stderr = capfd.readouterr().err
    assert stderr.count("Traceback") == 1
    assert "an error of its own while it worked on session 1, which ends" in stderr
    worker.wait_until(lambda: worker.suspects() == [])
    worker.wait_until(lambda: str(long_song) not in open_descriptors().values())


def test_an_error_in_taking_a_sources_bytes_ends_that_session_alone(worker: BreakableWorker) -> None:
    """It comes up in the thread that reads the socket. As an OSError it would look as if the node had gone."""
    worker.breaks_in(DecodingSource, "deliver", OSError(5, "Input/output error"))
    worker.open_session(BAD)
    worker.send(open_order(BAD, 1, 1000))
    request = worker.wait_for(ReadRequest, BAD)
    worker.send(Data(BAD, 1, request.offset, b"RIFF"))
    assert "Input/output error" in worker.wait_for(SessionFailed, BAD).failure.message
    worker.play(GOOD)
    worker.renders_all()


def test_what_sounded_is_named(worker: BreakableWorker) -> None:
    worker.open_session(BAD)
    worker.open_file(worker.song, BAD, source=7)
    worker.plan(BAD, source=7)
    worker.wait_for(Audio, BAD)
    worker.breaks_in(RenderSession, "render", RuntimeError("x"))
    worker.send(Grant(BAD, 2, 10, 50))
    assert worker.wait_for(SessionFailed, BAD).source == 7


def test_the_same_error_is_logged_once(worker: BreakableWorker, capfd: pytest.CaptureFixture[str]) -> None:
    worker.breaks_in(RenderSession, "render", RuntimeError("x" * 100_000))
    for _ in range(5):
        worker.play(BAD)
        failed = worker.wait_for(SessionFailed, BAD)
        assert len(failed.failure.message) < 1000
    stderr = capfd.readouterr().err
    assert stderr.count("Traceback") == 1
    assert len(stderr) < 5000


def test_a_process_whose_memory_is_used_up_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def noting(notes: mmap.mmap, _: int) -> SuspectNotes:
        return SuspectNotes(notes, address_space_bytes() + 1_000_000, exit_process=sys.exit)

    worker = BreakableWorker(tmp_path, monkeypatch, noting=noting)
    worker.breaks_in(RenderSession, "render", MemoryError())
    with suppress(BrokenPipeError):  # it may end before it is told of the file
        worker.play(BAD)
    end = worker.wait_for_end()
    worker.close()
    assert isinstance(end, SystemExit)
    assert end.code == EXIT_MEMORY_LIMIT


def test_an_order_that_cannot_be_read_names_the_session_that_it_was_for(worker: BreakableWorker) -> None:
    """The node will give it to the next process as well: so the end must count against that session."""
    unreadable: int = "x"  # type: ignore[assignment]
    worker.send(OpenSession(BAD, unreadable, 0, Filters()))
    worker.wait_for_end()
    assert worker.suspects() == [(BAD, 0)]


def test_without_a_thread_a_source_fails_alone_and_frames_of_mp3_are_missing(worker: BreakableWorker) -> None:
    def no_start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker.wait_for(Ready, 0)  # its own threads have started
    worker.play(GOOD)
    worker.patch.setattr(threading.Thread, "start", no_start)
    worker.open_session(BAD)
    worker.send(open_order(BAD, 1, 1000))  # one that waits for bytes has a thread of its own
    assert worker.wait_for(Failed, BAD).failure.code is FailureCode.LIMIT_EXCEEDED
    outputs = frozenset({PCM, mp3_output(128_000)})
    assert SONG_PCM.startswith(SentAudio(worker, GOOD, outputs).play(50))
    assert worker.wait_for(Encoded, GOOD).mp3_frames == ()
    worker.patch.undo()
    worker.send(Grant(GOOD, 2, 50, 50, outputs))
    assert worker.wait_for(Encoded, GOOD, that=lambda encoded: bool(encoded.mp3_frames))


def test_an_error_in_one_encoder_of_mp3_is_not_the_end_of_the_others(worker: BreakableWorker) -> None:
    really = Mp3Encoder.encode
    broken: list[Mp3Encoder] = []

    def encode(self: Mp3Encoder, pcm: bytes) -> list[bytes]:
        if not broken:
            broken.append(self)
        if self is broken[0]:
            raise MemoryError
        return really(self, pcm)

    worker.patch.setattr(Mp3Encoder, "encode", encode)
    outputs = frozenset({PCM, mp3_output(128_000)})
    for session in (BAD, GOOD):
        worker.play(session)
        worker.renders_all(session, outputs)
    assert worker.wait_for(Encoded, GOOD, that=lambda encoded: bool(encoded.mp3_frames))

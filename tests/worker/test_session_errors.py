"""What raises in a step of one session ends that session, with a reason, and the process goes on for all others.

The worker runs in a thread of the test, with render sessions that can be made to fail.
"""

import os
import resource
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.audio_files import music, pcm_of, wav
from tests.support.decoder_driver import open_order
from tests.support.worker_in_thread import WorkerInThread, open_descriptors_of
from tonearm.core.failure import FailureCode, Stage
from tonearm.core.filters import Filters
from tonearm.core.outputs import PCM, Output, Outputs, mp3_output
from tonearm.decoder.messages import (
    EXIT_MEMORY_LIMIT,
    Audio,
    Data,
    Encoded,
    Failed,
    Grant,
    OpenSession,
    Plan,
    ReadRequest,
    Ready,
    SeekSource,
    SessionFailed,
)
from tonearm.worker.memory import address_space_bytes
from tonearm.worker.packets.mp3 import Mp3Encoder
from tonearm.worker.packets.opus_encoder import OpusEncoder
from tonearm.worker.rendering.render_session import RenderSession
from tonearm.worker.sources.cursor import Cursor
from tonearm.worker.sources.source import DecodingSource

SONG = music(2.0)
SONG_PCM = pcm_of(SONG)
BAD, GOOD = 1, 2


@pytest.fixture
def worker() -> Iterator[WorkerInThread]:
    worker = WorkerInThread()
    yield worker
    worker.close()


@pytest.fixture
def song(tmp_path: Path) -> Path:
    path = tmp_path / "song.wav"
    path.write_bytes(wav(SONG))
    return path


def raises_in(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, error: Exception) -> None:
    """Has a method raise for the bad session."""
    really = getattr(kind, name)

    def broken(self: object, *arguments: object, **more: object) -> object:
        of = arguments[0] if name == "__init__" else self
        if getattr(of, "session", getattr(of, "_id", 0)) == BAD or getattr(of, "suspect", 0) >> 32 == BAD:
            raise error
        return really(self, *arguments, **more)

    monkeypatch.setattr(kind, name, broken)


def play(worker: WorkerInThread, session: int, song: Path) -> None:
    worker.send(OpenSession(session, 1, 0, Filters()))
    worker.open_file(song, session)
    worker.send(Plan(session, 2, 1, 0, 1, 1, None, Filters()))


def heard(worker: WorkerInThread, session: int, outputs: Outputs = frozenset({PCM})) -> bytes:
    """All that a session renders of the song."""
    pcm = b""
    while len(pcm) < len(SONG_PCM):
        frames = len(pcm) // 3840
        worker.send(Grant(session, 2, frames, frames + 40, outputs))
        pcm += bytes(worker.wait_for(Audio, session).pcm)
    return pcm[: len(SONG_PCM)]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (RenderSession, "__init__"),
        (RenderSession, "plan"),
        (RenderSession, "grant"),
        (RenderSession, "render"),
        (RenderSession, "take_measured"),
        (RenderSession, "used_up_to"),
        (DecodingSource, "start"),
        (DecodingSource, "used"),
        (DecodingSource, "fill_up"),
        (Cursor, "finish"),
    ],
)
def test_an_error_in_any_step_ends_that_session_alone(
    worker: WorkerInThread,
    song: Path,
    kind: type,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    raises_in(monkeypatch, kind, name, LookupError("samples 5 to 6 of a store of 7 to 8"))
    play(worker, BAD, song)
    for frames in (0, 30, 60):
        worker.send(Grant(BAD, 2, frames, frames + 40))
    failed = worker.wait_for(SessionFailed, BAD)
    assert (failed.failure.code, failed.failure.stage) == (FailureCode.INTERNAL, Stage.DECODE)
    assert "LookupError: samples 5 to 6" in failed.failure.message
    worker.send(Grant(BAD, 2, 10, 50))  # the node does not know it yet
    worker.send(SeekSource(BAD, 1, 3, 0))
    play(worker, GOOD, song)
    assert heard(worker, GOOD) == SONG_PCM
    stderr = capfd.readouterr().err
    assert stderr.count("Traceback") == 1
    assert "an error of its own while it worked on session 1, which ends" in stderr
    worker.wait_until(lambda: worker.suspects() == [])


@pytest.mark.parametrize("error", [LookupError("no such place"), OSError(5, "Input/output error")])
def test_an_error_in_taking_a_sources_bytes_ends_that_session_alone(
    worker: WorkerInThread, song: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """It comes up in the thread that reads the socket. As an OSError it would look as if the node had gone."""

    def deliver(*_: object) -> None:
        raise error

    monkeypatch.setattr(DecodingSource, "deliver", deliver)
    worker.send(OpenSession(BAD, 1, 0, Filters()))
    worker.send(open_order(BAD, 1, 1000))
    request = worker.wait_for(ReadRequest, BAD)
    worker.send(Data(BAD, 1, request.offset, b"RIFF"))
    assert str(error) in worker.wait_for(SessionFailed, BAD).failure.message
    play(worker, GOOD, song)
    assert heard(worker, GOOD) == SONG_PCM


def test_what_sounded_is_named(worker: WorkerInThread, song: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker.send(OpenSession(BAD, 1, 0, Filters()))
    worker.open_file(song, BAD, source=7)
    worker.send(Plan(BAD, 2, 1, 0, 7, 7, None, Filters()))
    worker.wait_for(Audio, BAD)
    raises_in(monkeypatch, RenderSession, "render", RuntimeError("x"))
    worker.send(Grant(BAD, 2, 10, 50))
    assert worker.wait_for(SessionFailed, BAD).source == 7


def test_files_of_a_session_that_failed_are_closed(
    worker: WorkerInThread, song: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raises_in(monkeypatch, RenderSession, "render", RuntimeError("x"))
    play(worker, BAD, song)
    worker.wait_for(SessionFailed, BAD)
    worker.open_file(song, BAD, source=2)  # for a session that is gone
    worker.wait_until(lambda: open_descriptors_of(song) == 0)


def test_the_same_error_is_logged_once(
    worker: WorkerInThread, song: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    raises_in(monkeypatch, RenderSession, "render", RuntimeError("x" * 100_000))
    for _ in range(5):
        play(worker, BAD, song)
        failed = worker.wait_for(SessionFailed, BAD)
        assert len(failed.failure.message) < 1000
    stderr = capfd.readouterr().err
    assert stderr.count("Traceback") == 1
    assert len(stderr) < 5000


def test_a_session_that_asks_for_too_much_memory_ends_and_not_the_process(
    worker: WorkerInThread, song: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raises_in(monkeypatch, RenderSession, "render", MemoryError("Unable to allocate 3.55 PiB"))
    play(worker, BAD, song)
    assert "3.55 PiB" in worker.wait_for(SessionFailed, BAD).failure.message
    play(worker, GOOD, song)
    assert heard(worker, GOOD) == SONG_PCM


def test_a_process_whose_memory_is_used_up_ends(song: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_bytes = address_space_bytes() + 1_000_000
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit_bytes, limit_bytes))
    monkeypatch.setattr(os, "_exit", sys.exit)
    worker = WorkerInThread()
    try:
        raises_in(monkeypatch, RenderSession, "render", MemoryError())
        play(worker, BAD, song)
        end = worker.wait_for_end()
        assert isinstance(end, SystemExit)
        assert end.code == EXIT_MEMORY_LIMIT
    finally:
        worker.close()


def test_while_a_session_is_worked_on_it_is_noted(
    worker: WorkerInThread, song: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[list[tuple[int, int]]] = []
    really = RenderSession.render

    def render(self: RenderSession, *arguments: int) -> list[Audio]:
        noted.append(worker.suspects())
        return really(self, *arguments)

    monkeypatch.setattr(RenderSession, "render", render)
    play(worker, BAD, song)
    worker.wait_for(Audio, BAD)
    assert (BAD, 1) in noted[-1]
    worker.wait_until(lambda: worker.suspects() == [])


def test_an_order_that_cannot_be_read_names_the_session_that_it_was_for(worker: WorkerInThread) -> None:
    """The node will give it to the next process as well: so the end must count against that session."""
    unreadable: int = "x"  # type: ignore[assignment]
    worker.send(OpenSession(BAD, unreadable, 0, Filters()))
    worker.wait_for_end()
    assert worker.suspects() == [(BAD, 0)]


def test_an_error_of_libopus_ends_that_session_alone(
    worker: WorkerInThread, song: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(worker, BAD, song)
    play(worker, GOOD, song)
    opus = Output("opus")
    worker.send(Grant(BAD, 2, 0, 10, frozenset({opus})))
    worker.wait_for(Audio, BAD)
    bad, really = list[OpusEncoder](), OpusEncoder.encode

    def encode(self: OpusEncoder, pcm: bytes, *, without_prediction: bool = False) -> bytes:
        if not bad:
            bad.append(self)
            ok, internal_error = 0, -3
            library = SimpleNamespace(opus_encode=lambda *_: internal_error, opus_encoder_ctl=lambda *_: ok)
            monkeypatch.setattr(self, "_library", library)
        return really(self, pcm, without_prediction=without_prediction)

    monkeypatch.setattr(OpusEncoder, "encode", encode)
    worker.send(Grant(BAD, 2, 10, 50, frozenset({opus})))
    failure = worker.wait_for(SessionFailed, BAD).failure
    assert (failure.code, failure.stage) == (FailureCode.INTERNAL, Stage.DECODE)
    assert "libopus could not encode a frame: error -3" in failure.message
    assert heard(worker, GOOD, frozenset({PCM, opus})) == SONG_PCM


def test_a_source_without_a_thread_fails_alone(
    worker: WorkerInThread, song: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    worker.wait_for(Ready, 0)  # its own threads have started
    play(worker, GOOD, song)
    monkeypatch.setattr(threading.Thread, "start", no_start)
    worker.send(OpenSession(BAD, 1, 0, Filters()))
    worker.send(open_order(BAD, 1, 1000))  # one that waits for bytes has a thread of its own
    assert worker.wait_for(Failed, BAD).failure.code is FailureCode.LIMIT_EXCEEDED
    assert heard(worker, GOOD) == SONG_PCM


def test_without_a_thread_for_mp3_its_frames_are_missing_and_nothing_else(
    worker: WorkerInThread, song: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = mp3_output(128_000)
    start = threading.Thread.start

    def no_start(self: threading.Thread) -> None:
        if self.name == "mp3":
            raise RuntimeError("can't start new thread")
        start(self)

    play(worker, GOOD, song)
    monkeypatch.setattr(threading.Thread, "start", no_start)
    outputs = frozenset({PCM, output})
    assert heard(worker, GOOD, outputs) == SONG_PCM
    assert worker.wait_for(Encoded, GOOD).mp3_frames == ()
    monkeypatch.undo()
    worker.send(Grant(GOOD, 2, 100, 140, outputs))
    assert worker.wait_for(Encoded, GOOD, lambda encoded: bool(encoded.mp3_frames)).mp3_frames


def test_an_error_in_one_encoder_of_mp3_is_not_the_end_of_the_others(
    worker: WorkerInThread, song: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = Mp3Encoder.encode
    broken: list[Mp3Encoder] = []

    def encode(self: Mp3Encoder, pcm: bytes) -> list[bytes]:
        if not broken:
            broken.append(self)
        if self is broken[0]:
            raise MemoryError
        return really(self, pcm)

    monkeypatch.setattr(Mp3Encoder, "encode", encode)
    outputs = frozenset({PCM, mp3_output(128_000)})
    for session in (BAD, GOOD):
        play(worker, session, song)
        assert heard(worker, session, outputs) == SONG_PCM
    assert worker.wait_for(Encoded, GOOD, lambda encoded: bool(encoded.mp3_frames))

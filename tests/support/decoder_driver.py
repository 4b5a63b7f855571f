"""A real decoder process, driven step by step: as the node does, but without a loop and without players."""

import math
import mmap
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from msgspec import structs

from tests.support.decoder_forks import start_alone, start_decoder
from tests.support.eventually import PATIENCE_S, eventually_without_a_loop
from tests.support.sandboxing import SANDBOX
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAME_BYTES, PCM_ONLY, Outputs
from tonearm.decoder.message_coding import MessageSplitter, pack
from tonearm.decoder.messages import (
    END_MEMORY,
    GRANT_FRAMES,
    SUSPECT_BYTES,
    SUSPECT_NOTE,
    Audio,
    Data,
    DataFailed,
    FromDecoder,
    FromNode,
    Grant,
    Mark,
    MarkKind,
    OpenSession,
    OpenSource,
    Plan,
    ReadRequest,
    Ready,
    SeekSource,
)
from tonearm.decoder.pool.starting import ChildProcess
from tonearm.sandbox.report import SandboxMode, SandboxReport

Feed: TypeAlias = Callable[[ReadRequest], Data | DataFailed | None]
_M = TypeVar("_M", bound=FromDecoder)


class DecoderOrders:
    """Sends orders and collects the answers. `feeds` answer read requests; one that returns None does not answer."""

    def __init__(self, connection: socket.socket, suspects: mmap.mmap) -> None:
        self.feeds: dict[tuple[int, int], Feed] = {}
        self.received: list[FromDecoder] = []
        self._splitter = MessageSplitter(FromDecoder)
        self._socket = connection
        self._suspects = suspects

    def how_it_ended(self) -> str:
        raise NotImplementedError

    # Orders

    def send(self, message: FromNode, descriptor: int | None = None) -> None:
        self.send_bytes(pack(message), descriptor)

    def send_bytes(self, data: bytes, descriptor: int | None = None) -> None:
        """Sends `descriptor` with the first byte. The caller closes it."""
        if descriptor is not None:
            data = data[socket.send_fds(self._socket, [data], [descriptor]) :]
        self._socket.sendall(data)

    def send_with_descriptor_of(self, order: OpenSource, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            self.send(order, descriptor)
        finally:
            os.close(descriptor)

    def open_session(self, session: int = 1, filters: Filters | None = None) -> None:
        self.send(OpenSession(session, 1, 0, filters or Filters()))

    def open_file(self, path: Path, session: int = 1, source: int = 1, start_sample: int = 0) -> None:
        order = open_order(session, source, path.stat().st_size, start_sample=start_sample, has_descriptor=True)
        self.send_with_descriptor_of(order, path)

    def open_bytes(
        self, data: bytes, session: int = 1, source: int = 1, feed: Feed | None = None, **changes: Any
    ) -> None:
        """`changes` are values of the order."""
        self.feeds[session, source] = feed or feed_of(data)
        size_bytes = len(data) if changes.get("is_seekable", True) else None
        self.send(open_order(session, source, size_bytes, **changes))

    def begin(self, session: int = 1, following: int | None = None) -> None:
        """Opens a session whose source 1 plays as soon as it is opened."""
        self.open_session(session)
        self.plan(session, following=following)

    def plan(
        self, session: int = 1, source: int = 1, following: int | None = None, epoch: int = 2, at_frame: int = 0
    ) -> None:
        """Cuts to `source`."""
        self.send(Plan(session, epoch, epoch - 1, at_frame, source, source, following, Filters()))

    # What comes back

    def step(self) -> list[FromDecoder]:
        """Waits for messages, answers read requests and returns all. Raises `EOFError` when it has ended."""
        self._socket.settimeout(PATIENCE_S)
        data = self._socket.recv(1 << 20)
        if not data:
            raise EOFError(f"the decoder has ended with {self.how_it_ended()}")
        fresh: list[FromDecoder] = []
        for message in self._splitter.feed(data):
            if isinstance(message, ReadRequest):
                feed = self.feeds.get((message.session, message.source))
                if feed is not None and (answer := feed(message)) is not None:
                    self.send(answer)
            fresh.append(message)  # type: ignore[arg-type]
        self.received.extend(fresh)
        return fresh

    def wait_for(
        self, kind: type[_M], session: int = 1, source: int | None = None, that: Callable[[_M], bool] = lambda _: True
    ) -> _M:
        """The first message of this kind that was not returned before."""
        while True:
            for index, message in enumerate(self.received):
                if (
                    isinstance(message, kind)
                    and getattr(message, "session", session) == session
                    and (source is None or getattr(message, "source", source) == source)
                    and that(message)
                ):
                    del self.received[index]
                    return message
            self.step()

    def listen(
        self, session: int = 1, epoch: int = 2, frame: int = 0, up_to: float = math.inf, outputs: Outputs = PCM_ONLY
    ) -> Iterator[Audio]:
        """The audio of this epoch, granted as it is taken: up to a frame, or to the end of a source that nothing
        follows."""
        is_over = False
        while frame < up_to and not is_over:
            self.send(Grant(session, epoch, frame, int(min(frame + GRANT_FRAMES, up_to)), outputs))
            audio = self.wait_for(Audio, session, that=lambda audio: audio.epoch == epoch)
            frame = audio.first_frame + audio.frames
            is_over = bool(audio.marks) and audio.marks[-1].kind in (MarkKind.END, MarkKind.INTERRUPTED)
            yield audio

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Polls what has no message, such as the threads of the process."""
        eventually_without_a_loop(condition, "what the decoder does without a word")

    def suspects(self) -> list[tuple[int, int]]:
        """All (session, source) pairs that the process has noted."""
        noted = SUSPECT_NOTE.iter_unpack(self._suspects[: END_MEMORY.start])
        return [(suspect >> 32, suspect & 0xFFFFFFFF) for suspect, _ in noted if suspect]


class DecoderDriver(DecoderOrders):
    """A process. With an `interpreter` of its own, or more `variables` in its environment, it is no fork."""

    def __init__(
        self,
        memory_limit_mb: int = 1024,
        interpreter: str | None = None,
        sandbox: SandboxMode = SANDBOX,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._stderr = ""
        self._status: int | None = None
        node_end, decoder_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        suspects = os.memfd_create("suspects", os.MFD_CLOEXEC)
        os.ftruncate(suspects, SUSPECT_BYTES)
        super().__init__(node_end, mmap.mmap(suspects, SUSPECT_BYTES))
        reading, writing = os.pipe()
        self._stderr_pipe = os.fdopen(reading, "rb")
        descriptors = (decoder_end.fileno(), suspects)
        arguments = (*descriptors, memory_limit_mb, sandbox)
        self._process: ChildProcess = (
            start_decoder(arguments, descriptors, writing)
            if interpreter is None and variables is None
            else start_alone(arguments, descriptors, writing, interpreter, variables)
        )
        self.pid = self._process.pid
        os.close(writing)
        decoder_end.close()
        os.close(suspects)

    def ready(self) -> SandboxReport:
        """Waits for the process, and returns in which sandbox it is."""
        return self.wait_for(Ready).sandbox

    # The process

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def memory_mb(self) -> tuple[float, float]:
        """Its address space, and what of it is resident."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(pages[0]) * 4096 / 2**20, int(pages[1]) * 4096 / 2**20

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def how_it_ended(self) -> str:
        return "{}: {}".format(*self.wait_for_end())

    def end(self) -> tuple[int, str]:
        """Closes the socket; returns the status and the stderr of the process."""
        self._socket.close()
        return self.wait_for_end()

    def wait_for_end(self) -> tuple[int, str]:
        if self._status is None:
            with self._stderr_pipe as pipe:
                self._stderr = pipe.read().decode()  # to its end, which is that of the process
            self._status = self._process.wait()
        return self._status, self._stderr

    def close(self) -> None:
        self._socket.close()
        if self._status is None:
            self._process.kill()
        self.wait_for_end()
        self._suspects.close()


class SentAudio:
    """Grants frames of one session and keeps them, as the node does: of the newest epoch, in order."""

    def __init__(self, driver: DecoderOrders, session: int = 1, outputs: Outputs = PCM_ONLY) -> None:
        self._driver = driver
        self._session = session
        self._outputs = outputs
        self._epoch = 2
        self.pcm = b""
        self.marks: list[Mark] = []  # of the newest epoch
        self.audios: list[Audio] = []

    @property
    def frames(self) -> int:
        return len(self.pcm) // FRAME_BYTES

    def take(self, audio: Audio) -> None:
        if audio.epoch != self._epoch:
            return
        assert audio.first_frame == self.frames
        self.pcm += audio.pcm
        self.marks += audio.marks
        self.audios.append(structs.replace(audio, pcm=bytes(audio.pcm)))

    def play(self, frames: int) -> bytes:
        """Plays on, up to `frames` frames, or to the end of a source without a next one."""
        if not (self.marks and self.marks[-1].kind is not MarkKind.BEGIN):
            for audio in self._driver.listen(self._session, self._epoch, self.frames, frames, self._outputs):
                self.take(audio)
        return self.pcm

    def cut_to(self, source: int) -> None:
        self._epoch += 1
        self.marks.clear()
        self._driver.plan(self._session, source, epoch=self._epoch, at_frame=self.frames)

    def seek(self, source: int, new_source: int, sample: int) -> None:
        self._driver.send(SeekSource(self._session, source, new_source, sample))
        self.cut_to(new_source)

    def sound_of(self, source: int) -> tuple[int, bytes]:
        """Where what was heard of a source begins in it, and its PCM."""
        own = [audio for audio in self.audios if audio.source == source]
        return own[0].position_samples, b"".join(audio.pcm for audio in own)


def open_order(session: int, source: int, size_bytes: int | None, **changes: Any) -> OpenSource:
    order = OpenSource(session, source, "sound", size_bytes, True, False, None, 0, False)
    return structs.replace(order, **changes)


def feed_of(data: bytes) -> Feed:
    """Answers every read request from `data` at once."""
    return lambda request: Data(
        request.session, request.source, request.offset, data[request.offset : request.offset + request.length]
    )


@contextmanager
def running_decoder(
    memory_limit_mb: int = 1024, interpreter: str | None = None, sandbox: SandboxMode = SANDBOX
) -> Iterator[DecoderDriver]:
    driver = DecoderDriver(memory_limit_mb, interpreter, sandbox)
    try:
        driver.ready()
        yield driver
    finally:
        driver.close()


@contextmanager
def confined_decoder(*, is_silent: bool = True) -> Iterator[DecoderDriver]:
    """A decoder whose sandbox ends it at a call that nothing foresees. It must come to its end, without a word if it
    shall be silent."""
    driver = DecoderDriver(sandbox=SandboxMode.TRAP)
    try:
        assert driver.ready().seccomp
        yield driver
        status, stderr = driver.end()
        assert (status, stderr if is_silent else "") == (0, "")
    finally:
        driver.close()

"""Blocking calls that may never return, each in a thread of its own."""

import _thread
import asyncio
import contextlib
import errno
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class DetachedThreads:
    """Runs each call in a daemon thread of its own, `at_most` at a time.

    A thread pool would not do: a dead name server or network share would block its few threads, and the interpreter
    would wait for them at exit.
    """

    def __init__(self, at_most: int) -> None:
        self._places = asyncio.Semaphore(at_most)

    async def run(self, call: Callable[[], T], *, discard: Callable[[T], None] | None = None) -> T:
        """Returns or raises what `call` does. If the caller is cancelled meanwhile, `discard` gets the result.

        Raises `OSError` when no thread can be started.
        """
        loop = asyncio.get_running_loop()
        await self._places.acquire()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            self._places.release()
            if not answer.done():
                if error is not None:
                    answer.set_exception(error)
                else:
                    answer.set_result(result)  # type: ignore[arg-type]  # no error: it is what the call returned
            elif error is None and discard is not None:
                discard(result)  # type: ignore[arg-type]

        def work() -> None:
            result: T | None = None
            error: BaseException | None = None
            try:
                result = call()
            except BaseException as caught:  # noqa: BLE001  # raised again where the call is awaited
                error = caught
            with contextlib.suppress(RuntimeError):  # the loop is closed: the node is gone
                loop.call_soon_threadsafe(settle, result, error)

        try:
            # `Thread.start` would have the event loop wait until the thread has begun, which takes tens of milliseconds
            # on an overloaded machine.
            _thread.start_new_thread(work, ())
        except RuntimeError as error:
            self._places.release()
            raise OSError(errno.EAGAIN, "the system gives the node no thread") from error
        try:
            return await answer
        except asyncio.CancelledError:
            # Cancelled after the result had come, but before it was taken.
            if discard is not None and answer.done() and not answer.cancelled() and answer.exception() is None:
                discard(answer.result())
            raise

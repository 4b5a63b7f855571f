"""Damaged files by the hundred, through a real decoder process: each ends, in sound or in an error, and none ends it.

200 of them by default; the variable MUTATIONS asks for more (`make fuzz`).
"""

import os

from tests.support.decoder_driver import DecoderDriver, running_decoder
from tests.support.mutation import mutated_file
from tonearm.core.filters import Filters
from tonearm.core.frame import FRAMES_PER_SECOND
from tonearm.decoder.messages import GRANT_FRAMES, Audio, CloseSession, Failed, Grant, MarkKind, Plan

FILES = int(os.environ.get("MUTATIONS", "200"))
# A damaged header may promise hours; so much is listened to.
FRAMES_AT_MOST = 5 * FRAMES_PER_SECOND


def test_damaged_files_end_in_sound_or_in_an_error() -> None:
    """The driver gives up when nothing comes for 20 seconds, and when the process dies."""
    played = failed = 0
    with running_decoder() as driver:
        for number in range(FILES):
            kind, data = mutated_file(number)
            try:
                outcome = play(driver, number + 1, data, is_seekable=number % 3 > 0)
            except (EOFError, TimeoutError) as error:
                raise AssertionError(f"mutated file {number} ({kind}, {len(data)} bytes): {error}") from error
            if isinstance(outcome, Failed):
                failed += 1
                assert outcome.failure.message, (number, kind)
                assert outcome.failure.hint, (number, kind)
            else:
                played += 1
            if number % 500 == 499:
                print(f"{number + 1} files: {played} played, {failed} failed")  # noqa: T201 - progress of a long run
    # Mutations that break everything, or nothing, would try little.
    assert played > FILES // 10
    assert failed > FILES // 20


def play(driver: DecoderDriver, session: int, data: bytes, *, is_seekable: bool) -> Failed | Audio:
    """Plays one file in a session of its own, up to its end: what said that it was over."""
    driver.open_session(session)
    driver.open_bytes(data, session, is_seekable=is_seekable)
    driver.send(Plan(session, 2, 1, 0, 1, 1, None, Filters()))
    frames = 0
    try:
        while True:
            for message in driver.step():
                if getattr(message, "session", session) != session:
                    continue
                if isinstance(message, Failed) and not message.gave_audio:
                    return message
                if isinstance(message, Audio):
                    frames += message.frames
                    ends = any(mark.kind is not MarkKind.BEGIN for mark in message.marks)
                    if ends or frames >= FRAMES_AT_MOST:
                        return message
                    driver.send(Grant(session, 2, frames, frames + GRANT_FRAMES))
    finally:
        driver.send(CloseSession(session))
        driver.feeds.pop((session, 1))
        driver.received.clear()

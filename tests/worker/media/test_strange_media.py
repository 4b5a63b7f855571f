"""Files with strange numbers, and damaged ones, through a real decoder process: each ends, in sound or in an error, and
none ends it.

The variables say how many (`make fuzz`). Of the strange ones there are others in each run; FUZZ_SEED is the first one.
"""

import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest

from tests.support.decoder_driver import running_decoder
from tests.support.mutation import mutated_file
from tests.support.strange.decoding import DecoderStory
from tests.support.strange.files import StrangeFile, strange_file

FIRST: Final = int(os.environ.get("FUZZ_SEED") or random.randrange(10**6) * 1000)
STRANGE: Final = int(os.environ.get("FUZZ_FILES") or 40)
DAMAGED: Final = int(os.environ.get("MUTATIONS") or 200)


def damaged_file(number: int) -> StrangeFile:
    kind, data = mutated_file(number)
    return StrangeFile(number, kind, ("damaged",), data)


@pytest.mark.parametrize(
    ("make", "numbers", "least_played", "least_failed", "again"),
    [
        (strange_file, range(FIRST, FIRST + STRANGE), 0.25, -1.0, "make fuzz SEED={0} FILES=1 SEEDS=1"),
        (damaged_file, range(DAMAGED), 0.1, 0.05, "make fuzz MUTATIONS={1}"),
    ],
    ids=["strange", "damaged"],
)
def test_files_end_in_sound_or_in_an_error(
    make: Callable[[int], StrangeFile], numbers: range, least_played: float, least_failed: float, again: str
) -> None:
    endings: Counter[str] = Counter()
    frames = passed_frames = 0
    with running_decoder() as driver:
        for session, number in enumerate(numbers, 1):
            story = DecoderStory(driver, session, make(number))
            try:
                story.play()
            except (EOFError, OSError, AssertionError) as error:
                ended = f"; the process ended: {driver.wait_for_end()}" if isinstance(error, BrokenPipeError) else ""
                raise AssertionError(
                    f"{story.file}: {error}{ended}\nAgain: {again.format(number, number + 1)}"
                ) from error
            endings[story.ending] += 1
            frames += story.frames
            passed_frames += story.passed_frames
    print(f"{numbers}: {frames} frames, {passed_frames} passed through, {dict(endings)}")  # noqa: T201 - of a long run
    # What breaks everything, or nothing, would try little.
    if len(numbers) >= 40:
        assert endings["played"] > len(numbers) * least_played
        failed = sum(count for ending, count in endings.items() if ending.startswith("failed"))
        assert failed > len(numbers) * least_failed

"""Files with strange numbers through a real decoder process: each ends, in sound or in an error, and none ends it.

Other ones in each run; the variables say otherwise (`make fuzz`): FUZZ_SEED is the first one, FUZZ_FILES how many.
"""

import os
import random
from collections import Counter

from tests.support.decoder_driver import running_decoder
from tests.support.strange.decoding import DecoderStory

FIRST = int(os.environ.get("FUZZ_SEED") or random.randrange(10**6) * 1000)
FILES = int(os.environ.get("FUZZ_FILES") or 40)


def test_strange_files_end_in_sound_or_in_an_error() -> None:
    endings: Counter[str] = Counter()
    frames = passed_frames = 0
    with running_decoder() as driver:
        for number in range(FILES):
            story = DecoderStory(driver, number + 1, FIRST + number)
            try:
                story.play()
            except (EOFError, OSError, AssertionError) as error:
                ended = f"; the process ended: {driver.wait_for_end()}" if isinstance(error, BrokenPipeError) else ""
                again = f"make fuzz SEED={FIRST + number} FILES=1 SEEDS=1"
                raise AssertionError(f"{story.file}: {error}{ended}\nAgain: {again}") from error
            endings[story.ending] += 1
            frames += story.frames
            passed_frames += story.passed_frames
    print(  # noqa: T201 - what a long run did
        f"files {FIRST} to {FIRST + FILES - 1}: {frames} frames, {passed_frames} passed through, {dict(endings)}"
    )
    # Oddities that break everything, or nothing, would try little.
    assert FILES < 40 or endings["played"] > FILES // 4

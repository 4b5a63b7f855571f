"""Files with strange numbers, played in every way on a node beside two players whose listeners notice nothing.

For some seconds; the variables say otherwise (`make fuzz`): FUZZ_SEED is the first seed, FUZZ_SEEDS how many of them,
FUZZ_SECONDS for how long.
"""

import os
import time
from pathlib import Path

from tests.support.examples import SEED
from tests.support.strange.fuzzing import fuzzing, seeds_until

COUNT = int(os.environ["FUZZ_SEEDS"]) if os.environ.get("FUZZ_SEEDS") else None
SECONDS = float(os.environ.get("FUZZ_SECONDS") or 6)


async def test_strange_files_cost_nobody_else_anything(tmp_path: Path) -> None:
    begun_s = time.monotonic()
    async with fuzzing(tmp_path) as told:
        failures = await told.tell(seeds_until(SEED, COUNT, SECONDS))
        seeds = len(told.stories)
        again = "".join(f"\nAgain: make fuzz SEED={failure.split(':')[0][5:]} SEEDS=1" for failure in failures)
        assert not failures, "\n\n".join(failures) + again
        await told.check_quality()
    frames, passed = (sum(getattr(story, name) for story in told.stories) for name in ("frames", "passed_frames"))
    print(  # noqa: T201 - what a long run did
        f"seeds {SEED} to {SEED + seeds - 1}: {time.monotonic() - begun_s:.0f} s; {frames} frames heard, {passed} "
        f"of them passed through; {told.steady_frames} of the steady listeners, none lost; {told.underruns} underruns "
        f"of theirs while the machine let the node wait for {told.waited_s:.1f} s"
    )
    assert frames

"""Runs the rounds. Each round measures every part once, so that a machine that grows slower affects all parts alike."""

import traceback
from collections.abc import Callable

from bench.plan import Run
from bench.progress import Progress
from bench.schedule import steps_of_round


async def carry_out(run: Run, after_round: Callable[[], None]) -> None:
    """A step that fails is noted, and the others go on. `after_round` is called after each."""
    rounds = [steps_of_round(run.plan, number + 1) for number in range(run.plan.rounds)]
    progress = Progress(sum(step.expected_s for steps in rounds for step in steps))
    for number, steps in enumerate(rounds, start=1):
        run.figures.round = number
        for step in steps:
            progress.begins(number, len(rounds), step.title)
            try:
                await step.measure(run)
            except Exception as error:  # noqa: BLE001 - an hour's run is not lost for one of its steps
                traceback.print_exc()
                run.figures.problem(f"{step.title} failed: {type(error).__name__}: {error}")
            progress.ended(step.expected_s)
        after_round()

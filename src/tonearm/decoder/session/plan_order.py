"""What the decoder is told of a plan, in each state."""

from dataclasses import replace

from tonearm.core.outputs import Outputs
from tonearm.decoder.messages import Crossfade, Plan
from tonearm.decoder.session.plan_moves import Attached, Program, Resuming, Switching


def crossfade_now(state: Attached, wanted: Program) -> Crossfade | None:
    """The crossfade that a plan made in this state has, of the one that is wanted."""
    crossfade = wanted.mix.crossfade
    if isinstance(state, Resuming) and crossfade is not None:
        if state.source != wanted.current:
            return None  # the source that joins has begun in the buffer already
        if crossfade.at_sample < state.next_sample:
            return None  # until its frames arrive: it must not begin in those that are rendered once more
    return crossfade


def plan_order(
    state: Attached,
    program: Program,
    epochs: tuple[int, int],
    at_frame: int,
    outputs: Outputs | None,
    *,
    from_silence: bool,
) -> Plan:
    """The order of a program, from `at_frame` on. `epochs`: its number, and that of the plan that is played.

    `outputs` are set when the plan is there for a new one of them. `from_silence`: nothing sounded before the last cut.
    """
    current, next_source, mix, session = program.current or 0, program.next, program.mix, state.session
    switch_to: int | None = None
    if isinstance(state, Switching):
        switch_to = current
    elif isinstance(state, Resuming):
        switch_to = state.source
        if switch_to != current:
            current, next_source = switch_to, None
    return Plan(
        session.id,
        *epochs,
        at_frame,
        switch_to,
        current,
        next_source,
        mix.filters,
        crossfade=mix.crossfade,
        cut_fade=state.cut_fade if isinstance(state, Switching) else None,
        outputs=outputs,
        overlays=tuple(
            replace(overlay, has_begun=True) if overlay.source in session.overlays_begun else overlay
            for overlay in mix.overlays
            if overlay.source not in session.overlays_over
        ),
        pauses=mix.pauses,
        from_silence=from_silence and isinstance(state, Switching),
    )

"""The packets of a run (`passing`) for the outputs that get packets of sources as they are."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from tonearm.core.frame import FRAME_BYTES
from tonearm.core.outputs import PRIMING_FRAMES, Output, Outputs
from tonearm.decoding.worker.packets.packet_encoding import NO_POINTS, EncodedBlock, EncoderPoints, PacketEncoders
from tonearm.decoding.worker.packets.passing import Run
from tonearm.decoding.worker.packets.passing_state import NOTHING_PASSED, Before, Passing

# What is needed of the frames before to begin encoding with any lag.
HISTORY_FRAMES: Final = PRIMING_FRAMES + 1

_NOTHING_ENCODED: Final = EncodedBlock((), NO_POINTS, NO_POINTS)


@dataclass(frozen=True, slots=True, eq=False)
class RunPackets:
    """The packets of a run, and how the passing on stands before it, all told, and after it."""

    encoded: EncodedBlock
    before: Passing
    after: Passing


NO_RUN: Final = RunPackets(_NOTHING_ENCODED, NOTHING_PASSED, NOTHING_PASSED)


def needs_history(passing: Passing, points: EncoderPoints, outputs: Outputs) -> bool:
    """Whether encoding begins anew, so that it needs the frames before."""
    return passing.last is None or not outputs <= {output for output, _ in points}


def passed_on(encoders: PacketEncoders, passing: Passing, outputs: Outputs, run: Run) -> RunPackets:
    """The packets of a run that is passed on. Encoders are not needed for now."""
    packets: list[tuple[Output, tuple[bytes, ...]]] = []
    for output in sorted(outputs):
        encoders.forget(output)
        packets.append((output, run.packets))
    encoded = EncodedBlock(tuple(packets), NO_POINTS, NO_POINTS)
    return RunPackets(encoded, passing, Passing(Before.PASSED, run.lag, last=None))


def encoded(
    encoders: PacketEncoders,
    passing: Passing,
    points: EncoderPoints,
    outputs: Outputs,
    run: Run,
    pcm: bytes,
    history: Callable[[], bytes | None],
    *,
    is_silent: bool,
) -> RunPackets:
    """The packets of a run that is encoded from the frames `pcm`.

    `history` gives the last HISTORY_FRAMES frames before, or fewer; None when these are the first ones. `is_silent`:
    no source sounds in them.
    """
    before: bytes | None = None
    if needs_history(passing, points, outputs):
        before = history()
        passing = replace(passing, last=(before or b"")[-FRAME_BYTES:].rjust(FRAME_BYTES, b"\0"))
    if passing.before is Before.NOTHING:
        passing = replace(passing, lag=run.lag)
    lag, delayed = passing.lag, None
    if run.lag != lag and (passing.before is Before.CUT or passing.may_change_to(run.lag, pcm)):
        lag, delayed = run.lag, passing.changing_to(run.lag, pcm)
    if delayed is None:
        delayed = passing.delayed(pcm)
    primer = None if before is None else passing.primer(before, PRIMING_FRAMES)
    block = encoders.encode(delayed, outputs, points, lambda: primer, opens=run.opens)
    if run.opens:
        kind = Before.READY
    elif is_silent and passing.before is Before.CUT:
        kind = Before.CUT  # what goes on comes later
    else:
        kind = Before.ENCODED
    return RunPackets(block, passing, Passing(kind, lag, pcm[-FRAME_BYTES:], run.waited))

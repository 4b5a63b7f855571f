"""Encoding of rendered frames to Opus so that any frame that was not sent can be encoded again, to the same packets.

An encoder's state is saved at the start of each block of frames only. In between it follows from the PCM since then.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tonearm.core.frame import FRAME_BYTES
from tonearm.core.outputs import Output, Outputs
from tonearm.worker.packets.opus_encoder import OpusEncoder


@dataclass(frozen=True, slots=True, eq=False)
class EncoderPoint:
    """Where an encoding stands: a saved state, and the frames that were encoded since. `is_fresh`: the encoder begins
    in mid-stream, so that its first packet must not build on those before it."""

    state: bytes
    pcm_since: bytes = b""
    is_fresh: bool = False

    def after(self, pcm: bytes) -> "EncoderPoint":
        return replace(self, pcm_since=self.pcm_since + pcm)


EncoderPoints: TypeAlias = tuple[tuple[Output, EncoderPoint], ...]
NO_POINTS: Final[EncoderPoints] = ()


@dataclass(frozen=True, slots=True, eq=False)
class EncodedBlock:
    """The packets of each output, and where its encoding stands before and after the block."""

    packets: tuple[tuple[Output, tuple[bytes, ...]], ...]
    before: EncoderPoints
    after: EncoderPoints


class PacketEncoders:
    """One session's encoders. For one thread."""

    def __init__(self) -> None:
        self._encoders: dict[Output, OpusEncoder] = {}
        self._at: dict[Output, EncoderPoint] = {}  # the point at which each encoder is now

    def encode(
        self,
        pcm: bytes,
        outputs: Outputs,
        points: EncoderPoints,
        before: Callable[[], bytes | None],
        *,
        opens: bool = False,
    ) -> EncodedBlock:
        """Encodes whole frames, going on from `points`. `opens`: a packet that is not of this encoder follows them.

        `before` is for an output that has no point yet: it gives the last PRIMING_FRAMES frames before these, or fewer,
        or None when these are the first ones of all.
        """
        packets: list[tuple[Output, tuple[bytes, ...]]] = []
        points_before: list[tuple[Output, EncoderPoint]] = []
        points_after: list[tuple[Output, EncoderPoint]] = []
        point_of = dict(points)
        for output in sorted(output for output in outputs if output.format == "opus"):
            encoder = self._encoders.get(output)
            if encoder is None:
                encoder = self._encoders[output] = OpusEncoder(output)
            point = point_of.get(output)
            if point is None:
                point = self._begin(encoder, before())
            elif point is not self._at.get(output):
                encoder.restore(point.state)
                for _ in _packets(encoder, point.pcm_since, is_fresh=point.is_fresh):
                    pass
            is_fresh = point.is_fresh and not point.pcm_since
            packets.append((output, tuple(_packets(encoder, pcm, is_fresh=is_fresh, opens=opens))))
            points_before.append((output, point))
            self._at[output] = EncoderPoint(encoder.save())
            points_after.append((output, self._at[output]))
        return EncodedBlock(tuple(packets), tuple(points_before), tuple(points_after))

    def forget(self, output: Output) -> None:
        """Frees an encoder that is not needed for now."""
        self._encoders.pop(output, None)
        self._at.pop(output, None)

    def forget_all_but(self, outputs: Outputs) -> None:
        for output in self._encoders.keys() - outputs:
            self.forget(output)

    def _begin(self, encoder: OpusEncoder, before: bytes | None) -> EncoderPoint:
        encoder.reset()
        for _ in _packets(encoder, before or b""):
            pass
        return EncoderPoint(encoder.save(), is_fresh=before is not None)


def encoded_alone(output: Output, pcm: bytes) -> list[bytes]:
    """The packets of whole frames, encoded independently of the frames before and after them."""
    return list(_packets(OpusEncoder(output), pcm, is_fresh=True))


def _packets(encoder: OpusEncoder, pcm: bytes, *, is_fresh: bool = False, opens: bool = False) -> Iterator[bytes]:
    last = len(pcm) - FRAME_BYTES
    for start in range(0, len(pcm), FRAME_BYTES):
        alone = (is_fresh and not start) or (opens and start == last)
        yield encoder.encode(pcm[start : start + FRAME_BYTES], without_prediction=alone)

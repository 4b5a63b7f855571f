"""libopus at the pace of players: what encoding alone costs when the caches are cold in between.

`python -m bench.paced_opus PATH COMPLEXITY ENCODERS SECONDS` prints the CPU µs of this process for a frame. Each of the
encoders has sound of its own and encodes a block of it every 200 ms, one after the other, as a renderer does for its
players. Between the beats the process sleeps, and does nothing else.
"""

import sys
import time
from pathlib import Path
from typing import Final

from bench.opus import decoded
from tonearm.core.frame import FRAME_BYTES, Output
from tonearm.worker.packets.opus_encoder import OpusEncoder
from tonearm.worker.rendering.block_packets import ENCODED_BLOCK_FRAMES

_BEAT_S: Final = ENCODED_BLOCK_FRAMES * 0.020
_WARM_UP_BEATS: Final = 3


def paced_us_a_frame(pcm: bytes, complexity: int, count: int, seconds: float) -> float:
    """CPU µs for a frame of `count` encoders, which go round in `pcm`."""
    encoders = [OpusEncoder(Output("opus", complexity=complexity)) for _ in range(count)]
    frames = len(pcm) // FRAME_BYTES
    beats = max(1, round(seconds / _BEAT_S))
    begun = 0.0
    deadline = time.monotonic()
    for beat in range(_WARM_UP_BEATS + beats):
        if beat == _WARM_UP_BEATS:
            begun = time.process_time()
        for number, encoder in enumerate(encoders):
            first = number * frames // count + beat * ENCODED_BLOCK_FRAMES
            for frame in range(first, first + ENCODED_BLOCK_FRAMES):
                at = frame % frames * FRAME_BYTES
                encoder.encode(pcm[at : at + FRAME_BYTES])
        deadline += _BEAT_S
        time.sleep(max(0.0, deadline - time.monotonic()))
    return (time.process_time() - begun) * 1e6 / (beats * ENCODED_BLOCK_FRAMES * count)


def main() -> None:
    path, complexity, count, seconds = sys.argv[1:]
    print(paced_us_a_frame(decoded(Path(path)), int(complexity), int(count), float(seconds)))


if __name__ == "__main__":
    main()

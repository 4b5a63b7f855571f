"""All that is done to decoded sound, under a filter that ends the process at a call that nothing foresees.

Effects, time and loudness, and every encoder, changed while they are heard. The process must come to its end without
a word.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.audio_files import mp3, music
from tests.support.decoder_driver import confined_decoder
from tests.support.one_of_each import ONE_OF_EACH, filters_with
from tonearm.core.filters import BAND_COUNT, Echo, Effects, Filters, Limiter, Normalization, Timescale
from tonearm.core.frame import MP3_BITRATES_BPS, PCM, Output, Outputs, mp3_output
from tonearm.decoder.messages import Encoded, Failed, Grant, Plan

FRAMES_A_SETTING = 12
EFFECTS = (*ONE_OF_EACH, Normalization(), Limiter(-3.0, enabled=True))
ALL_AT_ONCE = filters_with(*EFFECTS, volume=0.9)
SETTINGS: Sequence[Filters] = (
    Filters(),
    Filters(5.0, (6.0,) * BAND_COUNT),
    *(filters_with(effect, volume=0.9) for effect in (*EFFECTS, Echo(2000.0, 0.9, 1.0))),
    *(
        filters_with(Timescale(speed, pitch, rate), volume=0.9)
        for speed, pitch, rate in ((1.5, 1.0, 1.0), (0.25, 1.0, 1.0), (4.0, 1.0, 1.0), (1.0, 2.0, 1.0), (1.0, 0.5, 1.3))
    ),
    ALL_AT_ONCE,
    filters_with(*EFFECTS, Timescale(1.1, 0.9, 1.0), volume=0.9),
    Filters(0.9, effects=Effects(limiter=None)),
)
# An encoder gets sound, whatever has made it.
FEW_SETTINGS: Sequence[Filters] = (Filters(), ALL_AT_ONCE, Filters())
ALL_FORMS: Outputs = frozenset({PCM, Output("opus", 64_000, 10, has_fec=True, signal="music"), mp3_output(128_000)})
# At most four are asked for at once, as by the listeners of a player.
OUTPUTS: Sequence[Outputs] = (
    frozenset({PCM, *(Output("opus", 96_000, complexity) for complexity in (0, 5, 10))}),
    frozenset({Output("opus", 6_000, has_fec=True, signal="voice"), Output("opus", 510_000, is_variable=False)}),
    frozenset(map(mp3_output, MP3_BITRATES_BPS[:7])),
    frozenset(map(mp3_output, MP3_BITRATES_BPS[7:])),
)


@pytest.fixture(scope="module")
def song(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("songs") / "song"
    path.write_bytes(mp3(music(8.0)))
    return path


@pytest.mark.parametrize(
    ("settings", "outputs"), [(SETTINGS, ALL_FORMS), *((FEW_SETTINGS, outputs) for outputs in OUTPUTS)]
)
def test_no_effect_and_no_output_asks_for_more(settings: Sequence[Filters], outputs: Outputs, song: Path) -> None:
    heard: set[Output] = set()  # the forms in which there was sound
    frame, epoch = 0, 1
    with confined_decoder() as driver:
        driver.open_session()
        driver.open_file(song)
        for epoch, filters in enumerate(settings, 2):
            cut_to = 1 if not frame else None
            driver.send(Plan(1, epoch, epoch - 1, frame, cut_to, 1, None, filters, outputs=outputs))
            end = frame + FRAMES_A_SETTING
            for audio in driver.listen(1, epoch, frame, end, outputs):
                assert audio.first_frame == frame
                frame = min(audio.first_frame + audio.frames, end)
                heard |= {PCM} if any(audio.pcm) else set()
                heard |= {output for output, packets in audio.packets if any(packets)}
        driver.send(Grant(1, epoch, frame, frame, outputs))
        awaited = {output for output in outputs if output.format == "mp3"}
        while awaited:
            encoded = driver.wait_for(Encoded)
            heard |= {encoded.output} if any(encoded.mp3_frames) else set()
            if encoded.end_frame == frame:
                awaited.discard(encoded.output)
        assert not [message for message in driver.received if isinstance(message, Failed)]
    assert heard == outputs

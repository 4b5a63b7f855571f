"""All that is done to decoded sound, under a filter that ends the process at a call that nothing foresees.

Effects, time and loudness, and every encoder, changed while they are heard. The process must come to its end without
a word.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.audio_files import mp3, music
from tests.support.decoder_driver import DecoderDriver, confined_decoder
from tests.support.one_of_each import ONE_OF_EACH, filters_with
from tonearm.core.filters import BAND_COUNT, Echo, Effects, Filters, Limiter, Normalization, Timescale
from tonearm.core.frame import MP3_BITRATES_BPS, PCM, Output, Outputs, mp3_output
from tonearm.decoder.messages import (
    CloseSession,
    Encoded,
    Failed,
    Grant,
    Plan,
)

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


class Listener:
    """Grants frames of one session under changing settings. `heard` are the forms in which there was sound."""

    def __init__(self, driver: DecoderDriver, outputs: Outputs) -> None:
        self.heard: set[Output] = set()
        self._driver = driver
        self._outputs = outputs
        self._epoch = 1
        self._at_frame = 0
        driver.open_session()

    def plan(self, filters: Filters, *, cut_to: int | None) -> None:
        self._epoch += 1
        epochs = self._epoch, self._epoch - 1
        self._driver.send(Plan(1, *epochs, self._at_frame, cut_to, 1, None, filters, outputs=self._outputs))

    def play(self, frames: int) -> None:
        end = self._at_frame + frames
        for audio in self._driver.listen(1, self._epoch, self._at_frame, end, self._outputs):
            assert audio.first_frame == self._at_frame
            self._at_frame = min(audio.first_frame + audio.frames, end)
            self.heard |= {PCM} if any(audio.pcm) else set()
            self.heard |= {output for output, packets in audio.packets if any(packets)}

    def end(self) -> None:
        """Ends the session once the MP3 of all frames is there. No source may have failed."""
        self._driver.send(Grant(1, self._epoch, self._at_frame, self._at_frame, self._outputs))
        awaited = {output for output in self._outputs if output.format == "mp3"}
        while awaited:
            encoded = self._driver.wait_for(Encoded, 1)
            self.heard |= {encoded.output} if any(encoded.mp3_frames) else set()
            if encoded.end_frame == self._at_frame:
                awaited.discard(encoded.output)
        self._driver.send(CloseSession(1))
        assert not [message for message in self._driver.received if isinstance(message, Failed)]
        self._driver.received.clear()


def under_settings(settings: Sequence[Filters], driver: DecoderDriver, outputs: Outputs, song: Path) -> None:
    listener = Listener(driver, outputs)
    driver.open_file(song)
    for number, filters in enumerate(settings):
        listener.plan(filters, cut_to=None if number else 1)
        listener.play(FRAMES_A_SETTING)
    listener.end()
    assert listener.heard == outputs


@pytest.fixture(scope="module")
def song(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("songs") / "song"
    path.write_bytes(mp3(music(8.0)))
    return path


def test_no_effect_asks_for_more(song: Path) -> None:
    with confined_decoder() as driver:
        under_settings(SETTINGS, driver, ALL_FORMS, song)


@pytest.mark.parametrize("outputs", OUTPUTS)
def test_no_output_asks_for_more(outputs: Outputs, song: Path) -> None:
    with confined_decoder() as driver:
        under_settings(FEW_SETTINGS, driver, outputs, song)

"""A stream without an end must not fill memory, however long it plays."""

from pathlib import Path

from tests.support.audio_files import mp3, music
from tests.support.decoder_driver import DecoderDriver, open_order, running_decoder
from tonearm.core.frame import FRAMES_PER_SECOND
from tonearm.decoder.messages import Data, ReadRequest, TitleAt


def resident_mb(driver: DecoderDriver) -> float:
    status = Path(f"/proc/{driver.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def test_a_decoder_that_plays_radio_stays_as_large_as_it_is() -> None:
    sound = mp3(music(3.0, 44_100), bit_rate=320_000, options={"write_xing": "0", "id3v2_version": "0"})

    def station(request: ReadRequest) -> Data:
        driver.send(TitleAt(1, 1, request.offset, f"title at {request.offset}"))
        start = request.offset % len(sound)
        return Data(1, 1, request.offset, (sound[start:] + sound)[: request.length])

    with running_decoder() as driver:
        driver.open_session()
        driver.feeds[1, 1] = station
        driver.send(open_order(1, 1, None, is_seekable=False, is_live=True))
        driver.plan()
        radio = driver.listen()
        while next(radio).first_frame < 30 * FRAMES_PER_SECOND:
            pass
        before_mb = resident_mb(driver)
        while next(radio).first_frame < 150 * FRAMES_PER_SECOND:
            pass
        # 120 seconds are 4.8 MB of MP3 and 23 MB of PCM.
        assert resident_mb(driver) - before_mb < 4

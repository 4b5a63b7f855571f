"""Opening a source only to see what it is."""

from pathlib import Path

import msgspec

from tests.support.audio_files import flac, music
from tests.support.decoder_driver import open_order, running_decoder
from tonearm.decoder.messages import Decoded, Opened, Want


def test_a_probed_file_is_closed_as_soon_as_it_is_known(tmp_path: Path) -> None:
    song = tmp_path / "song.flac"
    song.write_bytes(flac(music(5.0)))
    with running_decoder() as decoder:
        decoder.open_session()
        threads, descriptors = decoder.threads(), decoder.descriptors()
        order = open_order(1, 1, song.stat().st_size, has_descriptor=True)
        decoder.send_with_descriptor_of(msgspec.structs.replace(order, want=Want.FACTS), song)
        assert decoder.wait_for(Opened).facts.length_ms == 5_000
        decoder.wait_for(Decoded)
        decoder.wait_until(lambda: decoder.threads() == threads)
        assert decoder.descriptors() == descriptors
        decoder.wait_until(lambda: decoder.suspects() == [])

"""Opening a source only to see what it is."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.support.audio_files import flac, music
from tests.support.decoder_driver import feed_of, open_order, running_decoder
from tonearm.decoder.messages import Decoded, Opened, ReadRequest, Want


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


def test_a_probe_asks_for_no_more_bytes_than_opening_needs() -> None:
    song = flac(music(5.0))
    with running_decoder() as decoder:
        decoder.open_session()
        for source, want in ((1, Want.FACTS), (2, Want.SOUND)):
            decoder.feeds[1, source] = feed_of(song)
            decoder.send(msgspec.structs.replace(open_order(1, source, len(song)), want=want))
        opened = [decoder.wait_for(Opened, source=source).facts for source in (1, 2)]
        decoder.wait_for(Decoded, source=1)
        while _wanted(decoder.received, 2) <= _wanted(decoder.received, 1):
            decoder.step()
        assert opened[0] == opened[1]


def _wanted(received: Sequence[object], source: int) -> int:
    return sum(isinstance(message, ReadRequest) and message.source == source for message in received)

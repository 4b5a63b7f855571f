"""The packets of Opus sources, and the PCM that is decoded from them on demand."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.audio_files import music, opus
from tests.support.media_files import decode_rest, open_bytes
from tests.support.packet_source import CountingDecoding, PacketSource, packets_in, taken
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, MOST_OPUS_PACKET_BYTES
from tonearm.decoder.messages import GRANT_FRAMES
from tonearm.worker.media.opus_decoding import PacketDecoding
from tonearm.worker.media.opus_format import can_pass_through, packet_samples
from tonearm.worker.media.opus_packets import PREROLL_SAMPLES, SourcePacket
from tonearm.worker.sources.packet_store import PacketStore

LENGTH = 3 * 48_000 + 417


def file_in(container: str, channels: int = 2) -> bytes:
    return opus(music(LENGTH / 48_000, channels=channels, seed=4) * 0.8, container=container)


def read_samples(store: PacketStore, start: int, count: int) -> NDArray[np.int16]:
    return np.frombuffer(store.read(start, count), "<i2").reshape(-1, 2)


@pytest.mark.parametrize(("container", "channels"), [("ogg", 1), ("ogg", 2), ("webm", 2), ("mp4", 1)])
def test_pcm_of_packets_is_that_of_the_decoded_file_from_wherever_it_is_read(container: str, channels: int) -> None:
    file = file_in(container, channels)
    wanted = np.asarray(decode_rest(open_bytes(file)))
    store = PacketSource(file).store
    assert LENGTH <= store.end < LENGTH + 48  # MP4's edit lists count milliseconds
    assert np.array_equal(read_samples(store, 0, store.end), wanted)
    for target in (100, 960, 50_001, LENGTH - 500):
        store = PacketSource(file, target).store
        got = read_samples(store, target, store.end - target)
        assert len(got) == len(wanted) - target
        # Of 16 bits, once a decoder that began 0.4 s before has settled.
        assert np.abs(got - wanted[target:].astype(np.int32)).max() <= 1


def test_nothing_is_decoded_before_it_is_read_and_nothing_twice() -> None:
    source = PacketSource(file_in("ogg"))
    source.store.release_before(48_000)
    assert source.decoding.decoded_packets == 0
    source.store.read(60_000, 4800)
    decoded = source.decoding.decoded_packets
    assert 0 < decoded <= PREROLL_SAMPLES // FRAME_SAMPLES + 12
    source.store.read(60_000, 4800)
    assert source.decoding.decoded_packets == decoded
    source.store.read(64_800, 9600)
    assert source.decoding.decoded_packets <= decoded + 20


def test_what_was_appended_is_decoded_ahead_only_while_it_is_read() -> None:
    decoding, prepared = CountingDecoding(2), GRANT_FRAMES * FRAME_SAMPLES
    store = PacketStore(0, decoding)
    first, second, *more = taken(file_in("ogg"))
    first += second
    store.append_packets(first)
    store.decode_ahead(LENGTH)
    assert decoding.decoded_packets == 0
    store.read(0, prepared)  # as many frames as are rendered before anybody listens
    store.append_packets(more[0])
    decoded = decoding.decoded_packets
    store.decode_ahead(LENGTH)
    assert decoding.decoded_packets == decoded < len(first) + len(more[0])
    store.read(prepared, 960)
    store.decode_ahead(60_000)
    assert 60_000 <= decoding.decoded_packets * FRAME_SAMPLES < 72_000
    store.decode_ahead(LENGTH)
    assert decoding.decoded_packets == len(first) + len(more[0])
    store.stop_reading()
    store.append_packets(more[1])
    store.decode_ahead(LENGTH)
    assert decoding.decoded_packets == len(first) + len(more[0])


def test_a_store_that_continues_another_one_has_its_sound_and_so_have_neighbours_of_what_was_released() -> None:
    file = file_in("ogg")
    in_order = read_samples(PacketSource(file).store, 0, LENGTH).astype(np.int32)
    store = PacketSource(file).store
    store.read(40_000, 9600)
    continued = store.continued_from(45_000)
    assert continued is not None
    assert (continued.start, continued.end) == (45_000, LENGTH)
    assert store.continued_from(LENGTH + 1) is None
    store.release_before(100_000)
    with pytest.raises(LookupError):
        store.read(99_999, 2)
    for one, start, count in ((continued, 45_000, 48_000), (store, 100_000, 960)):
        assert np.abs(read_samples(one, start, count) - in_order[start : start + count]).max() <= 1


def test_a_broken_packet_is_silent_and_moves_nothing_and_pcm_may_follow() -> None:
    file = file_in("ogg")
    in_order = read_samples(PacketSource(file).store, 0, LENGTH).astype(np.int32)
    whole = [packet for part in taken(file) for packet in part]
    store = PacketStore(0, CountingDecoding(2))
    store.append_packets([*whole[:50], whole[50]._replace(data=b"\xff\xff"), *whole[51:]])
    store.append(b"\1\0\2\0" * 1000)
    assert store.end == LENGTH + 1000
    begin, broken = 50 * 960 - 312, read_samples(store, 0, LENGTH + 10)
    assert not broken[begin + 120 : begin + 840].any()
    assert np.array_equal(broken[:begin], in_order[:begin])
    assert np.abs(broken[:LENGTH] - in_order)[begin + 25 * 960 :].max() <= 1
    assert broken[LENGTH:].tolist() == [[1, 2]] * 10
    assert store.packet_with(LENGTH) is None


def test_many_packets_of_which_nothing_is_heard_leave_no_gap() -> None:
    """As where the end of a part is cut off by more than its last packet, and another part follows."""
    store, heard = PacketStore(0, PacketDecoding(channels=2)), 12
    song = packets_in(file_in("ogg"))
    for first in (0, heard):
        starts = range(first * FRAME_SAMPLES, (first + heard) * FRAME_SAMPLES, FRAME_SAMPLES)
        packets = zip(starts, song[first:], strict=False)
        store.append_packets([SourcePacket(at, 960, at, at + 960, packet) for at, packet in packets])
        store.append_packets([SourcePacket(starts.stop, 960, starts.stop, starts.stop, packet) for packet in song[:40]])
    assert len(store.read(0, store.end)) == 2 * heard * FRAME_BYTES
    assert len(store.read(FRAME_SAMPLES, store.end - FRAME_SAMPLES)) == (2 * heard - 1) * FRAME_BYTES


@pytest.mark.parametrize(
    ("packet", "samples", "passes"),
    [
        (b"", 0, False),
        (b"\xfc", 960, True),  # CELT fullband, stereo
        (b"\xfc" + bytes(MOST_OPUS_PACKET_BYTES), 960, False),
        (b"\xf8\0", 960, True),  # mono
        (b"\xf4\0", 480, False),
        (b"\xfd\0\0", 1920, False),  # two frames
        (b"\xff\x03", 2880, False),  # so many as are said
        (b"\xff", 0, False),
        (b"\x08\0", 960, False),  # SILK
        (b"\x78\0", 960, False),  # hybrid
        (b"\x18\0", 2880, False),
    ],
)
def test_packets_say_how_long_they_are_and_whether_they_may_pass(packet: bytes, samples: int, passes: bool) -> None:
    assert packet_samples(packet) == samples
    assert can_pass_through(packet) is passes

"""Opus packets: what a decoder makes of them, and encoding again from a state that was kept."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.opus_listening import decoded, segmental_snr_db
from tests.support.pcm import channels, noise, tone
from tests.support.worker_in_thread import WorkerInThread
from tonearm.core.frame import (
    FRAME_BYTES,
    FRAME_SAMPLES,
    HIGHEST_OPUS_BPS,
    MOST_OPUS_PACKET_BYTES,
    OPUS_LOOKAHEAD_SAMPLES,
    SILENT_PACKET,
    Output,
)
from tonearm.decoder.message_coding import MessageSplitter, pack
from tonearm.decoder.messages import Audio, FromDecoder, Ready
from tonearm.protocol.framing import packets_as_messages, payload_of
from tonearm.worker.media.opus_format import can_pass_through
from tonearm.worker.packets.opus_encoder import OpusEncoder


def encoded(pcm: bytes, settings: Output | None = None) -> list[bytes]:
    encoder = OpusEncoder(settings or Output("opus"))
    return [encoder.encode(pcm[start : start + FRAME_BYTES]) for start in range(0, len(pcm), FRAME_BYTES)]


def test_a_tone_comes_back_after_the_lookahead() -> None:
    pcm = tone(440.0, frames=60, peak=10_000)
    packets = encoded(pcm)
    assert all(can_pass_through(packet) for packet in packets)
    assert len(decoded(packets)) == 60 * FRAME_SAMPLES
    assert segmental_snr_db(channels(pcm).astype(np.float64), decoded(packets)[OPUS_LOOKAHEAD_SAMPLES:]) > 25


def test_the_longest_packets_can_be_sent_and_decoded() -> None:
    pcm = noise(frames=50, peak=32_000)
    packets = encoded(pcm, Output("opus", HIGHEST_OPUS_BPS))
    assert max(map(len, packets)) == MOST_OPUS_PACKET_BYTES
    assert [payload_of(message) for message in packets_as_messages(packets)] == packets
    audio = Audio(1, 1, 0, 50, 1, 0, (), b"", packets=((Output("opus"), tuple(packets)),))
    assert list(MessageSplitter(FromDecoder).feed(pack(audio))) == [audio]
    assert all(map(can_pass_through, packets))
    assert not can_pass_through(packets[0].ljust(MOST_OPUS_PACKET_BYTES + 1))
    assert len(decoded(packets)) == 50 * FRAME_SAMPLES


@pytest.mark.parametrize("bitrate_bps", [32_000, 96_000, 256_000])
@pytest.mark.parametrize("is_variable", [True, False])
def test_the_bitrate_is_kept(bitrate_bps: int, is_variable: bool) -> None:
    packets = encoded(noise(frames=100, peak=8_000), Output("opus", bitrate_bps, is_variable=is_variable))
    assert sum(map(len, packets)) * 8 / 2 == pytest.approx(bitrate_bps, rel=0.15 if is_variable else 0.01)
    if not is_variable:
        assert len({len(packet) for packet in packets}) == 1


@pytest.mark.parametrize(
    "settings", [Output("opus", complexity=0), Output("opus", has_fec=True), Output("opus", signal="voice")]
)
def test_every_setting_is_taken(settings: Output) -> None:
    assert len(decoded(encoded(tone(300.0, frames=10, peak=5_000), settings))) == 10 * FRAME_SAMPLES


def test_silence_is_a_packet_of_three_bytes() -> None:
    assert np.abs(decoded([SILENT_PACKET] * 5)).max() == 0
    assert can_pass_through(SILENT_PACKET)


@pytest.mark.parametrize("library", ["nowhere", __file__, "libc.so.6"])
def test_without_a_libopus_to_call_a_decoder_process_says_why(library: str) -> None:
    process = WorkerInThread(opus_library=Path(library))
    try:
        assert process.wait_for(Ready, 0).opus_problem.startswith("libopus cannot be loaded: ")
    finally:
        process.close()

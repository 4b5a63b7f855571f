"""Bodies of endless streams, as they come from payloads and titles."""

import io

import av

from tonearm.core.frame import SILENT_PACKET
from tonearm.core.track_info import MAX_TITLE_CHARACTERS
from tonearm.server.stream_bodies import OggBody


def test_an_ogg_stream_goes_on_with_titles_and_packets_of_any_length() -> None:
    long = "x" * 100_000
    titles = [("", "first"), (long, long), ("", "last")]
    body = OggBody(lambda: titles[0], is_chained=True, packets_a_page=1)
    data = body.head
    for packet in (SILENT_PACKET, b"\xfc" + bytes(70_000), SILENT_PACKET):
        data += body.add(packet)
        titles.pop(0)
        titles.append(("", "last"))
    assert data.count(b"OpusHead") == 3
    assert data.count(b"x") < 3 * MAX_TITLE_CHARACTERS
    with av.open(io.BytesIO(data), "r", format="ogg") as container:
        packets = [bytes(packet) for packet in container.demux(audio=0) if packet.size]
    assert packets == [SILENT_PACKET, b"\xfc" + bytes(70_000), SILENT_PACKET]

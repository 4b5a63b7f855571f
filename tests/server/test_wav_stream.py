import asyncio
import io
import wave

import pytest

from tests.support.edge import StillNode, running_edge
from tests.support.eventually import eventually
from tests.support.http_client import connected, request
from tonearm.core.frame import FRAME_BYTES, FRAME_SAMPLES, SAMPLE_RATE_HZ
from tonearm.core.metadata import Json
from tonearm.player.clients.sinks import FrameSink
from tonearm.protocol.framing import Framing
from tonearm.server.app import EdgeSettings
from tonearm.server.audio_settings import AudioSettings, Station

STREAM = "/v0/players/p/stream.wav"
PCM = bytes(range(256)) * (FRAME_BYTES // 256)
CHUNK = b"%x\r\n%s\r\n" % (FRAME_BYTES, PCM)


async def only_listener(node: StillNode) -> FrameSink:
    await eventually(lambda: node.listeners, "the listener is there")
    (sink,) = node.listeners
    return sink


async def nobody_listens(node: StillNode) -> None:
    await eventually(lambda: not node.listeners, "the listener is gone")


async def test_the_stream_is_a_wav_file(node: StillNode, port: int) -> None:
    async with connected(port) as client:
        client.send_request("GET", STREAM)
        sink = await only_listener(node)
        assert sink.framing is Framing.CHUNKED
        assert sink.wants_silence
        for _ in range(10):
            sink.write(CHUNK)
        sink.close(1000, "deleted")
        sink.write(CHUNK)
        answer = await client.read_answer()
        assert await client.read_to_end() == b""
    assert answer.header("Content-Type") == "audio/wav"
    assert answer.header("Cache-Control") == "no-store"
    assert answer.header("Connection") == "close"

    assert int.from_bytes(answer.body[40:44], "little") > 3600 * SAMPLE_RATE_HZ * 4, "it may go on for hours"
    with wave.open(io.BytesIO(answer.body)) as reader:
        assert (reader.getnchannels(), reader.getsampwidth(), reader.getframerate()) == (2, 2, SAMPLE_RATE_HZ)
        assert reader.readframes(10 * FRAME_SAMPLES) == PCM * 10


async def test_an_older_client_gets_the_bare_bytes(node: StillNode, port: int) -> None:
    async with connected(port) as client:
        client.send(b"GET %s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" % STREAM.encode())
        sink = await only_listener(node)
        assert sink.framing is Framing.RAW
        sink.write(PCM)
        head = await client.read_head()
        sink.close(1001, "")
        body = await client.read_to_end()
    assert head.header("Transfer-Encoding") is None
    assert body[:4] == b"RIFF"
    assert body[44:] == PCM


async def test_the_head_says_what_metadata_or_the_configuration_say_of_the_station(node: StillNode) -> None:
    station = Station("Attic Radio", "jazz", "https://attic.example/")
    others: list[Json] = [None, 5, "station", {"station": None}, {"station": ["a"]}, {"station": {"name": 7}}]
    names: list[tuple[Json, str]] = [
        *((metadata, "Attic Radio") for metadata in others),
        ({"station": {"name": "Näher\r\nSet-Cookie: a=b"}}, "Näher Set-Cookie: a=b"),
        ({"station": {"name": "a\x00b\x1b[31m\x7f  東京 "}}, "a b [31m 東京"),
        ({"station": {"name": "x" * 10_000}}, "x" * 200),
        ({"station": {"name": " \r\n"}}, "Attic Radio"),
    ]
    async with running_edge(node, EdgeSettings(audio=AudioSettings(station=station))) as port:
        for metadata, name in names:
            node.player("p").change_metadata(False, metadata)
            head = await request(port, "HEAD", STREAM)
            assert (head.header("icy-name") or "").encode("latin-1").decode() == name
            assert (head.header("icy-genre"), head.header("icy-url")) == ("jazz", "https://attic.example/")
            assert head.header("Set-Cookie") is None
        assert node.listeners == []
    async with running_edge(node) as port:
        for kind, bitrate in (("wav", "1536"), ("mp3?bitrate=96000", "96")):
            async with connected(port) as client:
                client.send_request("GET", f"/v0/players/p/stream.{kind}")
                head = await client.read_head()
            assert [head.header(f"icy-{name}") for name in ("name", "url", "br")] == ["tonearm p", None, bitrate]


async def test_a_client_that_leaves_is_detached(node: StillNode, port: int, caplog: pytest.LogCaptureFixture) -> None:
    async with connected(port) as client:
        client.send_request("GET", STREAM)
        await client.read_head()
        sink = await only_listener(node)
    await nobody_listens(node)
    sink.write(CHUNK)
    assert sink.pending_bytes() == 0
    assert "ERROR" not in caplog.text


async def test_a_client_that_takes_nothing_is_cut_after_its_close(node: StillNode, port: int) -> None:
    async with connected(port, receive_buffer_bytes=4096) as client:
        client.send_request("GET", STREAM)
        await client.read_head()
        sink = await only_listener(node)
        while sink.pending_bytes() < 2**20:
            sink.write(CHUNK)
        sink.close(1013, "too slow")
        await eventually(lambda: not sink.pending_bytes(), "everything was taken")
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            async for _ in client.chunks():
                pass

"""The plain relay that people write first: one `ffmpeg` program a player, Python reads its pipe and sends.

`python -m bench.relay PORT` serves GET /play/{id}/ws?uri=…&volume=…&format=pcm|opus&complexity=…: PCM with the volume
applied, or the packets of an Opus encoder in the same `ffmpeg` program, taken out of its Ogg pages.
"""

import asyncio
import fcntl
import os
import sys
import time
from collections.abc import AsyncIterator

import numpy as np
from aiohttp import web

FRAME_BYTES = 3840
PAGE_HEAD_BYTES = 27  # RFC 3533, 6
LAST_LACING = 255
HEADERS = (b"OpusHead", b"OpusTags")
# A pipe of the usual size and its reader hold 12 s of Opus: the program would encode 4 s at once and then stand for as
# long, so that a window of two seconds measured the one or the other. So it is a third of a second ahead, as with PCM.
OPUS_PIPE_BYTES = 4096
PCM_READER_BYTES = 1 << 16  # asyncio's own


async def play(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(compress=False)
    await socket.prepare(request)
    is_opus = request.query.get("format") == "opus"
    arguments = ["-v", "error", "-stream_loop", "-1", "-i", request.query["uri"], "-map", "0:a", "-ar", "48000"]
    arguments += ["-ac", "2"]
    if is_opus:
        complexity = request.query.get("complexity", "5")
        arguments += ["-c:a", "libopus", "-b:a", "128k", "-compression_level", complexity, "-page_duration", "20000"]
        arguments += ["-flush_packets", "1"]
    arguments += ["-f", "opus" if is_opus else "s16le", "-"]
    read_end, write_end = os.pipe()
    if is_opus:
        fcntl.fcntl(read_end, fcntl.F_SETPIPE_SZ, OPUS_PIPE_BYTES)
    ffmpeg = await asyncio.create_subprocess_exec("ffmpeg", *arguments, stdout=write_end)
    os.close(write_end)
    reader = asyncio.StreamReader(limit=OPUS_PIPE_BYTES // 2 if is_opus else PCM_READER_BYTES)
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read_end, "rb", buffering=0)
    )
    frames = opus_packets(reader) if is_opus else pcm_frames(reader, float(request.query.get("volume", "1")))
    deadline = time.monotonic()
    try:
        async for frame in frames:
            deadline += 0.020
            await asyncio.sleep(max(0.0, deadline - time.monotonic()))
            await socket.send_bytes(frame)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        pipe.close()
        ffmpeg.kill()
        await ffmpeg.wait()
    return socket


async def pcm_frames(pipe: asyncio.StreamReader, volume: float) -> AsyncIterator[bytes]:
    while True:
        frame = await pipe.readexactly(FRAME_BYTES)
        samples = np.frombuffer(frame, np.int16) * volume
        yield np.clip(samples, -32768, 32767).astype(np.int16).tobytes()


async def opus_packets(pipe: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The packets of an Ogg stream without those of its head."""
    packet = b""
    while True:
        head = await pipe.readexactly(PAGE_HEAD_BYTES)
        for length in await pipe.readexactly(head[26]):
            packet += await pipe.readexactly(length)
            if length < LAST_LACING:
                if not packet.startswith(HEADERS):
                    yield packet
                packet = b""


if __name__ == "__main__":
    import uvloop

    app = web.Application()
    app.router.add_get("/play/{id}/ws", play)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)

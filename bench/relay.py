"""The plain relay that people write first: one `ffmpeg` program a player, Python reads its pipe and sends.

`python -m bench.relay PORT` serves GET /play/{id}/ws?uri=…&volume=…
"""

import asyncio
import sys
import time

import numpy as np
from aiohttp import web

FRAME_BYTES = 3840


async def play(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse(compress=False)
    await socket.prepare(request)
    volume = float(request.query.get("volume", "1"))
    arguments = ["-v", "error", "-stream_loop", "-1", "-i", request.query["uri"], "-map", "0:a"]
    ffmpeg = await asyncio.create_subprocess_exec(
        "ffmpeg", *arguments, "-f", "s16le", "-ar", "48000", "-ac", "2", "-", stdout=asyncio.subprocess.PIPE
    )
    assert ffmpeg.stdout is not None
    deadline = time.monotonic()
    try:
        while True:
            frame = await ffmpeg.stdout.readexactly(FRAME_BYTES)
            samples = np.frombuffer(frame, np.int16) * volume
            frame = np.clip(samples, -32768, 32767).astype(np.int16).tobytes()
            deadline += 0.020
            await asyncio.sleep(max(0.0, deadline - time.monotonic()))
            await socket.send_bytes(frame)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        ffmpeg.kill()
        await ffmpeg.wait()
    return socket


if __name__ == "__main__":
    import uvloop

    app = web.Application()
    app.router.add_get("/play/{id}/ws", play)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)
